/** Questions about an object that is about to come, of which all that will be written about it is known. */
import { originsOf } from '../model/expansion-rules.ts';
import type { SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import { fits, type Tuple } from '../model/tuple.ts';
import type { Question } from './engine.ts';
import { isPlain } from './graph.ts';
import { isNamed, plainRules, stepsOf } from './probe.ts';

/**
 * Whether a subject will have `name` on it: known, or the one question about another object that says it. `undefined`
 * where more has to be asked, or more than alternatives counts. `written`: all tuples of the object.
 */
export function askedOfNew(
  model: Model,
  subject: SubjectRef,
  name: Name,
  written: readonly Tuple[],
): boolean | Question | undefined {
  const rules = isPlain(subject) ? plainRules(model, name) : undefined;
  if (!rules) return undefined;
  const fitting = written.filter((tuple) => fits(model, tuple));
  const isDirect = ({ relation, subject: named }: Tuple): boolean =>
    rules.direct.has(relation) && isNamed(named, subject);
  if (rules.open || fitting.some(isDirect)) return true;
  const origins = new Map(originsOf(model, name).map((on) => [keyOf(on), on]));
  const steps = fitting.flatMap((tuple) => stepsOf(rules, tuple).map((key) => ({ tuple, key })));
  if (steps.some(({ key }) => key === undefined)) return true;
  const [first, ...others] = steps;
  if (!first) return false;
  const on = origins.get(first.key ?? '');
  const { type, id } = first.tuple.subject;
  // Of a relation and an action of one name, a question means the action.
  const isMeant = on && model.action(type, on.name)?.kind === on.kind;
  // Asked about themselves they may do everything; on the way to others they need what gives it.
  const isTheirs = type === subject.type && id === subject.id;
  if (others.length > 0 || !isMeant || isTheirs) return undefined;
  return { subject, action: on.name, resource: { type, id } };
}
