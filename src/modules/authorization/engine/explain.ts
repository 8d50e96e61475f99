/**
 * Why the answer of a check is as it is: the resolved nodes of the same
 * evaluation, told from the question downwards. For "yes" the line of reasoning
 * that decides; for "no" everything that was tried and what is missing.
 */
import { type Expression, format, type RecordRule } from '../model/expression.ts';
import { formatObject, formatSubject, type ObjectRef } from '../model/grammar.ts';
import { grantRelation, type Name } from '../model/model.ts';
import { formatTuple, type Tuple } from '../model/tuple.ts';
import {
  checkAll,
  type EngineScope,
  evaluateAll,
  evaluationContextOf,
  isOpen,
  isSelf,
  resolve,
} from './ask.ts';
import type {
  AskOptions,
  ExplainOptions,
  Explanation,
  Question,
  Reason,
  Suggestion,
} from './engine.ts';
import {
  directTuples,
  type EvaluationState,
  expressionBounds,
  leadingTuples,
  nodeBounds,
  setBounds,
  targetBounds,
  tupleBounds,
  tupleStanding,
} from './evaluate.ts';
import {
  type Arrow,
  type Grounds,
  isGrounded,
  supportingTuple,
  supportsSet,
} from './explanation-grounds.ts';
import { isOwnSet, nodeKey } from './graph.ts';
import { limits } from './limits.ts';
import { canBeTried, suggestChanges } from './suggestions.ts';

/** Most lines of one explanation. */
const MAX_REASONS = 500;

export async function explain(
  engineScope: EngineScope,
  question: Question,
  options?: ExplainOptions,
): Promise<Explanation> {
  const resolved = resolve(engineScope.model, question);
  const { object, name } = resolved;
  if (isSelf(resolved))
    return {
      ...aboutNode(object, name),
      allowed: true,
      because: 'an object may do everything to itself',
      parts: [],
      kind: name.kind,
      outcome: 'allowed',
      missing: [],
      wouldAllow: [],
    };
  const [verdict] = await evaluateAll(
    engineScope,
    [resolved],
    evaluationContextOf(engineScope.model, options),
  );
  if (!verdict) throw new Error('a question without a verdict');
  const { state, sure, missing } = verdict;
  const reason = explainNode(
    { state, left: { lines: MAX_REASONS }, trail: new Set() },
    object,
    name,
  );
  const outcome = isOpen(verdict) ? 'undecided' : sure ? 'allowed' : 'denied';
  const suggest = outcome === 'denied' && options?.suggest === true;
  return {
    ...reason,
    kind: name.kind,
    outcome,
    missing: outcome === 'undecided' ? [...missing] : [],
    wouldAllow: suggest
      ? await confirmed(engineScope, { question, options }, suggestChanges({ state, object, name }))
      : [],
  };
}

/** Those that a check agrees with: what a new tuple leads to was not among the tuples at hand. */
async function confirmed(
  engineScope: EngineScope,
  { question, options }: { readonly question: Question; readonly options: AskOptions | undefined },
  suggestions: readonly Suggestion[],
): Promise<readonly Suggestion[]> {
  const kept: Suggestion[] = [];
  for (const suggestion of suggestions) {
    const tried = canBeTried(suggestion) ? [suggestion.tuple] : [];
    const contextual = [...(options?.contextual ?? []), ...tried];
    const isChecked = tried.length > 0 && contextual.length <= limits.contextual;
    const answers = isChecked
      ? checkAll(engineScope, [question], { ...options, contextual })
      : Promise.resolve([true]);
    // What has no answer is no way to one.
    const [allowed] = await answers.catch(() => [false]);
    if (allowed === true) kept.push(suggestion);
  }
  return kept;
}

interface Telling extends Grounds {
  readonly left: { lines: number };
}

const aboutNode = (object: ObjectRef, name: Name) => ({
  about: `${formatObject(object)} ${name.name}`,
});

function explainNode(telling: Telling, object: ObjectRef, name: Name): Reason {
  const { state } = telling;
  const about = aboutNode(object, name);
  const bounds = nodeBounds(state, object, name);
  const key = nodeKey(object, name);
  telling.left.lines -= 1;
  if (state.nodes.get(key)?.given)
    return {
      ...about,
      allowed: bounds.sure,
      because: bounds.sure
        ? 'was found among what the subject reaches'
        : 'was not found among what the subject reaches',
      parts: [],
    };
  if (telling.trail.has(key))
    return { ...about, allowed: false, because: 'is what is being asked above', parts: [] };
  if (telling.left.lines < 0)
    return {
      ...about,
      allowed: bounds.sure,
      because: 'is left out: the explanation is too long',
      parts: [],
    };
  if (isOwnSet(state.evaluation, object, name))
    return { ...about, allowed: true, because: 'a set is in itself', parts: [] };
  const deeper = { ...telling, trail: new Set(telling.trail).add(key) };
  return {
    ...about,
    ...(name.kind === 'relation'
      ? tellRelation(deeper, object, name.name)
      : tellAction(deeper, object, name)),
  };
}

type Told = Omit<Reason, 'about'>;

function tellRelation(telling: Telling, object: ObjectRef, relation: string): Told {
  const { state } = telling;
  const { evaluation } = state;
  const direct = directTuples(state, object, relation).map((tuple) => tellTuple(state, tuple));
  const proof = direct.find((told) => told.allowed);
  if (proof) return proof;
  const sets = evaluation.tuples.of(object, relation).filter((t) => t.subject.relation !== '');
  const deciding = sets.find(
    (tuple) => setBounds(state, tuple).sure && supportsSet(telling, tuple),
  );
  if (deciding) return tellSet(telling, deciding);
  const parts = [
    ...direct.map((told) => ({ ...told, about: `${formatObject(object)} ${relation}` })),
    ...sets.map((t) => aboutSet(telling, t)),
  ];
  return {
    allowed: false,
    because: `${formatSubject(evaluation.subject)} does not stand in ${relation} of ${formatObject(object)}`,
    parts,
  };
}

function tellTuple(state: EvaluationState, tuple: Tuple): Told {
  const { subject, relation, resource, condition } = tuple;
  const standing = tupleStanding(state.evaluation, tuple);
  const stands = `${formatSubject(subject)} stands in ${relation} of ${formatObject(resource)}`;
  return {
    allowed: standing.bounds.sure,
    because: `${stands}${doubt(tuple, standing, condition)}`,
    tuple: formatTuple(tuple),
    parts: [],
  };
}

function doubt(
  { expired }: Tuple,
  { bounds, missing }: ReturnType<typeof tupleStanding>,
  condition: string | undefined,
): string {
  if (expired) return ', but its time is over';
  if (condition === undefined) return '';
  if (bounds.sure) return `, and the condition "${condition}" holds`;
  if (missing.length > 0)
    return `, but the condition "${condition}" needs values that were not given`;
  return bounds.possible
    ? `, but the condition "${condition}" cannot be decided: a value is absent or of another type, so it gives nothing and takes away`
    : `, but the condition "${condition}" does not hold`;
}

function tellSet(telling: Telling, tuple: Tuple): Told {
  const name = telling.state.evaluation.model.member(tuple.subject.type, tuple.subject.relation);
  const told = tellTuple(telling.state, tuple);
  const { sure } = setBounds(telling.state, tuple);
  return { ...told, allowed: sure, parts: name ? [explainNode(telling, tuple.subject, name)] : [] };
}

const aboutSet = (telling: Telling, tuple: Tuple): Reason => ({
  about: formatSubject(tuple.subject),
  ...tellSet(telling, tuple),
});

function tellAction(telling: Telling, object: ObjectRef, name: Name): Told {
  const { state } = telling;
  const grants = directTuples(state, object, grantRelation(name.name)).map((tuple) =>
    tellTuple(state, tuple),
  );
  const grant = grants.find((told) => told.allowed);
  if (grant) return { ...grant, because: `${name.name} is granted directly` };
  const expression = state.evaluation.model.expression(name);
  return expression
    ? tellExpression(telling, object, expression)
    : { allowed: false, because: 'is not defined', parts: [] };
}

function tellExpression(telling: Telling, object: ObjectRef, expression: Expression): Told {
  const { state } = telling;
  const { sure } = expressionBounds(state, object, expression);
  const within = (name: Name): Told => ({
    allowed: sure,
    because: format(expression),
    parts: [explainNode(telling, object, name)],
  });
  switch (expression.kind) {
    case 'none':
      return { allowed: false, because: 'nobody may', parts: [] };
    case 'everyone':
      return { allowed: true, because: 'everybody may', parts: [] };
    case 'rule':
      return tellRule(telling, object, expression);
    case 'relation':
      return within({ type: object.type, kind: 'relation', name: expression.relation });
    case 'action':
      return within({ type: object.type, kind: 'action', name: expression.action });
    case 'arrow':
      return tellArrow(telling, object, expression);
    default:
      return tellCombination(telling, object, expression);
  }
}

/** What a rule says about a record; a value that is missing is named. */
function tellRule({ state }: Telling, object: ObjectRef, rule: RecordRule): Told {
  const { subject, rules } = state.evaluation;
  const { bounds, missing } = rules.of(subject, object, rule);
  if (bounds.sure)
    return { allowed: true, because: `the record fits the rule ${format(rule)}`, parts: [] };
  const because = bounds.possible
    ? `the rule ${format(rule)} depends on ${missing.join(', ')}, which was not given`
    : `no such record, or it does not fit the rule ${format(rule)}`;
  return { allowed: false, because, parts: [] };
}

type Combination = Extract<Expression, { kind: 'union' | 'intersection' | 'exclusion' }>;

function tellCombination(telling: Telling, object: ObjectRef, expression: Combination): Told {
  const { state } = telling;
  const { sure } = expressionBounds(state, object, expression);
  const all =
    expression.kind === 'exclusion' ? [expression.base, expression.subtract] : expression.of;
  const told = all.map((part) => ({ part, bounds: expressionBounds(state, object, part) }));
  const deciding =
    expression.kind === 'union' && sure
      ? told
          .filter(({ part, bounds }) => bounds.sure && isGrounded(telling, object, part))
          .slice(0, 1)
      : told;
  const parts = (deciding.length > 0 ? deciding : told).map(({ part }) => ({
    about: `${formatObject(object)} ${format(part)}`,
    ...tellExpression(telling, object, part),
  }));
  return { allowed: sure, because: format(expression), parts };
}

function tellArrow(telling: Telling, object: ObjectRef, arrow: Arrow): Told {
  const { state } = telling;
  const { sure } = expressionBounds(state, object, arrow);
  const leading = leadingTuples(state, object, arrow);
  const proof = sure && !arrow.all ? supportingTuple(telling, object, arrow) : undefined;
  const because =
    leading.length > 0
      ? format(arrow)
      : `nothing that knows "${arrow.target}" stands in ${arrow.relation} of ${formatObject(object)}`;
  return {
    allowed: sure,
    because,
    parts: (proof ? [proof] : leading).map((tuple) => tellTarget(telling, tuple, arrow)),
  };
}

function tellTarget(telling: Telling, tuple: Tuple, arrow: Arrow): Reason {
  const told = tellTuple(telling.state, tuple);
  const about = `${formatObject(tuple.subject)} ${arrow.target}`;
  const name = telling.state.evaluation.model.action(tuple.subject.type, arrow.target);
  if (!name)
    return {
      ...told,
      about,
      allowed: false,
      because: `${tuple.subject.type} knows no "${arrow.target}"`,
    };
  const target = targetBounds(telling.state, tuple, arrow);
  // Where it may count, what is denied all the same says why.
  const isDeciding =
    told.allowed || (tupleBounds(telling.state, tuple).possible && !target.possible);
  return {
    ...told,
    about,
    allowed: told.allowed && target.sure,
    parts: isDeciding ? [explainNode(telling, tuple.subject, name)] : [],
  };
}
