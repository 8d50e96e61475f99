/**
 * Answers one check by one short statement, where little hangs on it: the statement loads that little, with the
 * revision of the definitions of the same snapshot, and nothing has to be asked beside it. `near` loads all that is
 * written about the resource, by one search of an index; `held` the same, where what the subject reaches is known
 * already; `object` what of it can count; `graph` also what that leads to. Each stops at a bound. What lies beyond is
 * left to larger searches (checks.ts of the services), unless more could not change the answer.
 */
import { isExact, isPublic, rulesTo } from '../model/expansion-rules.ts';
import { isEverybody, type SubjectRef } from '../model/grammar.ts';
import { keyOf, type Model, type Name, reachable } from '../model/model.ts';
import { fits, indexTuples, type Tuple } from '../model/tuple.ts';
import { type EngineScope, isSelf, type Resolved } from './ask.ts';
import type { AskOptions, Probe, ProbeReach, Question } from './engine.ts';
import { evaluate } from './evaluate.ts';
import { type Bounds, isPlain, no, unknown, yes } from './graph.ts';
import { type HeldReaches, heldReach } from './held-reach.ts';
import { loadNear, loadNearMany, type NearObjects } from './near-tuples.ts';
import { type Loaded, loadProbe, MAX_TUPLES } from './probe-statements.ts';
import { noRules, rulesBelow } from './record-rules.ts';
import { reachableKey } from './reverse-expansion.ts';
import { arrowsIn, footprintOf } from './tuple-loading.ts';

interface Around {
  readonly options?: AskOptions | undefined;
  /** What is kept of subjects; absent where nothing is. */
  readonly held?: HeldReaches | undefined;
}

/** `undefined` when the model does not know the words of the question, or it needs no statement: the walk tells what is wrong. */
export function probe(
  engineScope: EngineScope,
  question: Question,
  { options: { context = {}, contextual = [] } = {}, held }: Around,
  reach: ProbeReach,
): Promise<Probe | undefined> {
  const { model, database } = engineScope;
  const asked = contextual.length > 0 ? undefined : askedOf(model, question);
  if (!asked) return nothing;
  if (reach === 'held') return held ? heldProbe(engineScope, asked, held) : nothing;
  const loading =
    reach === 'near' ? loadNear(database, model, asked) : loadProbe(database, model, asked, reach);
  return loading?.then((loaded) => probeOf(model, asked, { loaded, context, reach })) ?? nothing;
}

const nothing = Promise.resolve(undefined);

/**
 * The same for several questions, by one statement for all: their answers rest on the same state. Only `near` and `held`
 * look at so little. `undefined` where the questions are of several types, or one of them would not be asked alone.
 */
export async function probeAll(
  engineScope: EngineScope,
  questions: readonly Question[],
  { options: { context = {}, contextual = [] } = {}, held }: Around,
  reach: 'near' | 'held',
): Promise<readonly Probe[] | undefined> {
  const { model, database } = engineScope;
  const all = contextual.length > 0 ? [] : questions.map((question) => askedOf(model, question));
  const asked = all.filter((one) => one !== undefined);
  const [first] = asked;
  if (!first || asked.length < questions.length) return undefined;
  if (asked.some(({ object }) => object.type !== first.object.type)) return undefined;
  const objects = {
    type: first.object.type,
    names: asked.map(({ name }) => name),
    ids: [...new Set(asked.map(({ object }) => object.id))],
  };
  if (reach === 'held') return held && heldProbes(engineScope, { asked, objects }, held);
  const near = await loadNearMany(database, model, objects);
  return asked.map((one) =>
    probeOf(model, one, { loaded: near.get(one.object.id) ?? nothingNear, context, reach }),
  );
}

/** Of an object that the statement did not answer about, which it does for all. */
const nothingNear: Loaded = { revision: -1, tuples: [] };

interface LoadedFor extends Pick<Found, 'context' | 'reach'> {
  readonly loaded: Loaded;
}

export function probeOf(
  model: Model,
  asked: Resolved,
  { loaded, context, reach }: LoadedFor,
): Probe {
  const { revision } = loaded;
  const tuples = loaded.tuples.filter((tuple) => fits(model, tuple));
  const whole = loaded.tuples.length <= MAX_TUPLES[reach];
  const plain = reach === 'near' ? plainVerdict(model, asked, tuples) : undefined;
  if (plain) return { revision, whole, allowed: whole || plain.sure ? decided(plain) : undefined };
  return { revision, whole, allowed: evaluated(model, asked, { tuples, context, whole, reach }) };
}

interface Found {
  readonly tuples: readonly Tuple[];
  readonly context: Readonly<Record<string, unknown>>;
  readonly whole: boolean;
  readonly reach: Exclude<ProbeReach, 'held'>;
}

function evaluated(
  model: Model,
  { subject, object, name }: Resolved,
  { tuples, context, whole, reach }: Found,
): boolean | undefined {
  const now = new Date().toISOString();
  const evaluation = { model, tuples: indexTuples(tuples), subject, context, now, rules: noRules };
  const bounds = evaluate(evaluation, object, name);
  if (whole && (reach === 'graph' || !leadsOn(model, name, tuples))) return decided(bounds);
  return bounds.sure && isMonotone(model, name) ? true : undefined;
}

/** The question in the words of the model; nothing where it knows them not, or where no tuple answers it. */
export function askedOf(
  model: Model,
  { subject, action, resource }: Question,
): Resolved | undefined {
  const name = model.action(resource.type, action);
  if (!name || !isKnown(model, subject)) return undefined;
  const asked: Resolved = { subject, object: resource, name };
  // Rules about records are asked of the records.
  return isSelf(asked) || rulesBelow(model, name).size > 0 ? undefined : asked;
}

const decided = ({ sure, possible }: Bounds): boolean | undefined =>
  sure === possible ? sure : undefined;

const isKnown = (model: Model, { type, relation }: SubjectRef): boolean =>
  (isEverybody({ type }) || model.get(type) !== undefined) &&
  (relation === '' || model.member(type, relation) !== undefined);

/** By what the subject is known to reach, confirmed by the statement that loads the tuples of the object. */
async function heldProbe(
  engineScope: EngineScope,
  asked: Resolved,
  held: HeldReaches,
): Promise<Probe | undefined> {
  const { model, database } = engineScope;
  if (!isHeldPlainly(model, asked)) return undefined;
  const reached = await heldReach(engineScope, asked, held);
  if (!reached) return undefined;
  const guard = { ...reached.rests, revision: model.revision };
  const near = await loadNear(database, model, asked, guard);
  if (!near.stands) held.forget();
  return heldVerdict(model, asked, near, reached.objects);
}

/** All ask for the same name of one subject, who reaches the same whatever the object is. */
async function heldProbes(
  engineScope: EngineScope,
  { asked, objects }: { readonly asked: readonly Resolved[]; readonly objects: NearObjects },
  held: HeldReaches,
): Promise<readonly Probe[] | undefined> {
  const { model, database } = engineScope;
  const [first] = asked;
  if (!first || !isHeldPlainly(model, first)) return undefined;
  const key = askerOf(first);
  if (asked.some((one) => askerOf(one) !== key)) return undefined;
  const reached = await heldReach(engineScope, first, held);
  if (!reached) return undefined;
  const guard = { ...reached.rests, revision: model.revision };
  const near = await loadNearMany(database, model, objects, guard);
  if ([...near.values()].some(({ stands }) => !stands)) held.forget();
  return asked.map((one) =>
    heldVerdict(model, one, near.get(one.object.id) ?? nothingNear, reached.objects),
  );
}

/** Whether tuples of the object, and what the subject reaches, are all that counts. */
export const isHeldPlainly = (model: Model, { subject, name }: Resolved): boolean =>
  isPlain(subject) && plainRules(model, name) !== undefined;

const askerOf = ({ subject: { type, id, relation }, name }: Resolved): string =>
  JSON.stringify([type, id, relation, keyOf(name)]);

export function heldVerdict(
  model: Model,
  asked: Resolved,
  { revision, stands = false, tuples }: Loaded & { readonly stands?: boolean },
  objects: ReadonlySet<string>,
): Probe {
  const whole = tuples.length <= MAX_TUPLES.near;
  if (!stands) return { revision, allowed: undefined, whole };
  const fitting = tuples.filter((tuple) => fits(model, tuple));
  const verdict = plainVerdict(model, asked, fitting, objects) ?? unknown;
  const leads = plainVerdict(model, asked, fitting) === unknown;
  return { revision, whole, leads, allowed: whole || verdict.sure ? decided(verdict) : undefined };
}

/* Names that rest on alternatives alone: each tuple of the object gives them, leads to them, or does not count. */

interface PlainRules {
  /** Everybody has the name. */
  readonly open: boolean;
  /** Relations in which a subject has it. */
  readonly direct: ReadonlySet<string>;
  /** By relation, type and relation of a subject: what has to be held on that subject, `undefined` for what everybody has. */
  readonly steps: ReadonlyMap<string, readonly (string | undefined)[]>;
}

const stepKey = (relation: string, type: string, setRelation: string): string =>
  `${relation} ${type} ${setRelation}`;

export const plainRules = (model: Model, name: Name): PlainRules | undefined =>
  model.derived(`plain ${keyOf(name)}`, () => {
    if (!isExact(model, name)) return undefined;
    const { direct, steps } = rulesTo(model, name);
    const open = new Set(
      reachable(name, model.dependencies).edges.flatMap(({ on }) =>
        isPublic(model, on) ? [keyOf(on)] : [],
      ),
    );
    const byTuple = Map.groupBy(steps, (step) =>
      stepKey(step.relation, step.fromType, step.setRelation),
    );
    return {
      open: isPublic(model, name),
      direct: new Set(direct.map(({ relation }) => relation)),
      steps: new Map(
        [...byTuple].map(([key, all]) => [
          key,
          all.map(({ fromName }) => (open.has(fromName) ? undefined : fromName)),
        ]),
      ),
    };
  });

/** `objects`: all that the subject has, if that is known. `undefined` for names and subjects that are not plain. */
function plainVerdict(
  model: Model,
  { subject, name }: Resolved,
  tuples: readonly Tuple[],
  objects?: ReadonlySet<string>,
): Bounds | undefined {
  const rules = isPlain(subject) ? plainRules(model, name) : undefined;
  if (!rules) return undefined;
  if (rules.open) return yes;
  let leads = false;
  for (const tuple of tuples) {
    if (rules.direct.has(tuple.relation) && isNamed(tuple.subject, subject)) return yes;
    for (const fromName of stepsOf(rules, tuple)) {
      if (fromName === undefined || objects?.has(reachedName(tuple, fromName))) return yes;
      leads = true;
    }
  }
  return leads && !objects ? unknown : no;
}

const reachedName = ({ subject: { type, id } }: Tuple, name: string): string =>
  reachableKey({ type, id, name });

export const stepsOf = (rules: PlainRules, { subject, relation }: Tuple) =>
  (subject.id === '*'
    ? undefined
    : rules.steps.get(stepKey(relation, subject.type, subject.relation))) ?? [];

/** Whether a tuple names a plain subject: by itself, as one of everybody of its type, as one of everybody. */
export const isNamed = (named: SubjectRef, { type, id }: SubjectRef): boolean =>
  isEverybody(named) ||
  (named.relation === '' && named.type === type && (named.id === id || named.id === '*'));

/* All others are evaluated. */

/** True when more tuples never take the name away: nothing is subtracted, and no "every" asks for all. */
const isMonotone = (model: Model, name: Name): boolean =>
  model.derived(`monotone ${keyOf(name)}`, () => {
    const { edges } = reachable(name, model.dependencies);
    const asksForAll = (one: Name): boolean =>
      arrowsIn(model.expression(one) ?? { kind: 'none' }).some(({ all }) => all);
    return (
      edges.every(({ negative }) => !negative) &&
      ![name, ...edges.map(({ on }) => on)].some(asksForAll)
    );
  });

/** Whether one of the tuples leads to another object. */
function leadsOn(model: Model, name: Name, tuples: readonly Tuple[]): boolean {
  const { follows, sets } = model.derived(`leads ${keyOf(name)}`, () => {
    const footprint = footprintOf(model, name);
    return {
      follows: new Set(footprint.follows.map((row) => row.join(' '))),
      sets: new Set(footprint.sets.map((row) => row.join(' '))),
    };
  });
  return tuples.some(({ resource: { type }, relation, subject }) =>
    subject.relation === ''
      ? subject.id !== '*' && follows.has(`${type} ${relation} ${subject.type}`)
      : sets.has(`${type} ${relation}`),
  );
}
