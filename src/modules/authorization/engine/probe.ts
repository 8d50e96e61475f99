/**
 * Answers a check by one index lookup, where a stored tuple of the resource itself decides it. The statement says of
 * which definitions that is true: both come from one snapshot, and nothing has to be asked beside it. Whatever needs
 * more than that is left to the walk (load.ts), whose start alone costs several times as much.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import { directGrounds } from '../model/direct-grounds.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import { grantedAction } from '../model/model.ts';
import { arrayText } from './array-text.ts';
import { isSelf, type World } from './ask.ts';
import type { AskOptions, Question } from './engine.ts';
import { liveTuple } from './tuple-row.ts';

/** What one lookup found out. */
export interface Probe {
  /** Of the resource definitions, when it looked: `allowed` is right for a model of this revision alone. */
  readonly revision: number;
  /** Absent when the lookup does not decide it. */
  readonly allowed: boolean | undefined;
}

/**
 * `num_nulls` instead of `is null`: a partial index on unconditional tuples does not hold the id of the resource, and
 * must not be taken for the one that leads to a single tuple.
 */
const stands = (subject: string, relations: string): string => `exists (
  select 1 from penstock.tuples t
   where t.resource_type = $1 and t.resource_id = $2 and t.relation = any(${relations}::text[])
     and t.subject_type = $3 and ${subject}
     and num_nulls(t.condition) = 1 and ${liveTuple('t')})`;

const text = `select (select coalesce(max(revision), 0) from penstock.resource_definition_versions) as revision,
  (${stands('t.subject_id = $4 and t.subject_relation = $5', '$6')}
   or ${stands(`t.subject_id = '*' and t.subject_relation = ''`, '$7')}) as found`;
const name = statementName(text);

/** `undefined` when no lookup could decide the question, or the model does not know its words. */
export async function probe({ model, database }: World, question: Question, options: AskOptions = {}): Promise<Probe | undefined> {
  const { subject, action, resource } = question;
  // A tuple that is given counts in the place of the stored one.
  if ((options.contextual?.length ?? 0) > 0) return undefined;
  const goal = model.action(resource.type, action);
  if (!goal || !model.get(subject.type) || (subject.relation !== '' && !model.member(subject.type, subject.relation))) return undefined;
  if (isSelf({ subject, object: resource, name: goal })) return undefined;
  const { everyone, own, everybody, complete } = directGrounds(model, goal, subject);
  // Direct grants are rare beside relations: where they alone could decide, the walk finds them as well.
  const worthwhile = everyone || complete || [...own, ...everybody].some((relation) => grantedAction(relation) === undefined);
  if (!worthwhile) return undefined;
  const { revision, found } = await lookUp(database, { subject, resource, own, everybody });
  return { revision, allowed: everyone || found || (complete ? false : undefined) };
}

interface LookUp {
  readonly subject: SubjectRef;
  readonly resource: ObjectRef;
  readonly own: readonly string[];
  readonly everybody: readonly string[];
}

async function lookUp(database: Queryable, { subject, resource, own, everybody }: LookUp) {
  const values = [resource.type, resource.id, subject.type, subject.id, subject.relation, arrayText(own), arrayText(everybody)];
  const { rows } = await database.query<{ revision: string; found: boolean }>({ name, text, values, class: 'short' });
  const [row] = rows;
  if (!row) throw new Error('The database did not answer a check');
  return { revision: Number(row.revision), found: row.found };
}
