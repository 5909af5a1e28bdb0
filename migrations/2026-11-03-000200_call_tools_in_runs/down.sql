alter table rounds drop constraint rounds_decision_check;
alter table rounds add constraint rounds_decision_check check (decision in ('retrieval', 'answer'));
alter table run_answers drop constraint run_answers_form_check;
alter table run_answers add constraint run_answers_form_check check (form in ('content', 'tool_call'));
alter table run_answers drop column outcome;
