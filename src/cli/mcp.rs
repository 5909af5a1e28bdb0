//! `slatebase mcp`: the Model Context Protocol over standard input and output.

use std::process::ExitCode;

use uuid::Uuid;

use super::database::Database;
use crate::app::App;
use crate::config::{DatabaseConfig, Secret, SecretsConfig};
use crate::mcp::api::{ServeAs, serve};
use crate::outbound::OutboundConfig;

mod proxy;

/// Serve slates, or one session, to a client that starts this command and speaks the Model Context Protocol with it.
///
/// With --server all messages go to that server's /mcp, by the key of --token; without, to the database itself, for the
/// tenant of --tenant, with every right.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slatebase mcp --tenant acme
  slatebase mcp --tenant acme --session 01890a5d-ac96-774b-bcce-b302099a8057
  SLATEBASE_TOKEN=slb_1_2_… slatebase mcp --server https://kb.example")]
pub struct Args {
    /// The tenant's name
    #[arg(long, env = "SLATEBASE_TENANT", value_name = "NAME", required_unless_present = "server")]
    tenant: Option<String>,
    /// The session that is served: its rounds are calls. Unset: the slates
    #[arg(long, env = "SLATEBASE_SESSION", value_name = "ID")]
    session: Option<Uuid>,
    /// The server that all goes to. Unset: none, but the database itself
    #[arg(long, env = "SLATEBASE_SERVER", value_name = "URL", requires = "token")]
    server: Option<String>,
    /// A key of the server's
    #[arg(long, env = "SLATEBASE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<Secret>,
    #[command(flatten)]
    outbound: OutboundConfig,
    #[command(flatten)]
    secrets: SecretsConfig,
    #[command(flatten)]
    database: DatabaseConfig,
}

/// Runs it until the input ends.
///
/// # Errors
/// When the tenant is nobody's, the database or the server is at fault, or the client is.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    if let (Some(server), Some(token)) = (&args.server, &args.token) {
        runtime.block_on(proxy::run(server, token, args.session))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &args.tenant else { anyhow::bail!("--tenant is needed, or --server with --token") };
    let database = Database::open_for_command(&args.database)?;
    let tenant = database.tenant(name)?;
    let app = App::for_command(database.db.clone(), &args.outbound, &database.secrets(&args.secrets)?)?;
    let served = runtime.block_on(serve(app, ServeAs { tenant, session: args.session }));
    // The thread that reads standard input never ends by itself.
    runtime.shutdown_background();
    database.close()?;
    served?;
    Ok(ExitCode::SUCCESS)
}
