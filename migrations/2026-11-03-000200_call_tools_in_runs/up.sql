-- The model of a run may call the tools of its session's route: such a call is a round, and what came of it is kept beside the
-- answer that asked for it.
alter table run_answers add column outcome json;
alter table run_answers drop constraint run_answers_form_check;
alter table run_answers add constraint run_answers_form_check check (form in ('content', 'tool_call', 'tool'));
alter table rounds drop constraint rounds_decision_check;
alter table rounds add constraint rounds_decision_check check (decision in ('retrieval', 'answer', 'tool'));
select grant_to_app('update (outcome) on run_answers');
