drop function freshen_statistics();
