/** Why somebody may do something, or may not: for people first, then the whole line of reasoning. */
import Type, { type Static } from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { Reason } from '../engine/engine.ts';
import { formatObject, formatSubject, parseObject, parseSubject } from '../model/grammar.ts';
import { grantedAction } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import type { TellExplanation, ToldSuggestion } from '../services/explanation.ts';
import {
  askOptions,
  bodyLimit,
  contextKeys,
  type EvaluationContext,
  type Question,
  type QuestionServices,
  question,
  questionFacts,
  questionOf,
} from './questions.ts';
import { asRequested, ofQuestion, questionErrors } from './shapes.ts';

export interface ExplanationServices extends QuestionServices {
  readonly tell: TellExplanation;
}

export const explanationOperations = (services: ExplanationServices): readonly Operation[] => [
  evaluateByQuery(services),
  evaluateByBody(services),
];

/** How much of the reasoning is answered. */
const page = {
  skip: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 10_000,
      description: 'Parts of the first line to pass over',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 500,
      description: 'Lines of reasoning, 200 unless given; what is left out is counted where it was',
    }),
  ),
};
const Page = Type.Object(page);

/** A line of reasoning; its parts have the same shape. */
const ReasonShape = Type.Object({
  allowed: Type.Boolean(),
  about: Type.String({ description: 'As a question: an object and a name' }),
  because: Type.String(),
  tuple: Type.Optional(Type.String()),
  parts: Type.Array(Type.Unknown({ description: 'Lines of the same shape' })),
  left: Type.Optional(
    Type.Integer({ description: 'Parts that were left out; ask about this line by itself' }),
  ),
});

const TupleShape = Type.Object({
  subject: Type.String(),
  relation: Type.Optional(Type.String()),
  permission: Type.Optional(Type.String()),
  resource: Type.String(),
});

const Evaluation = Type.Object({
  outcome: Type.Enum(['allowed', 'denied', 'undecided'], {
    description: '`undecided` where a check answers CONTEXT_MISSING',
  }),
  sentence: Type.String({ description: 'The answer for people' }),
  allowed: Type.Boolean(),
  assigned: Type.Optional(
    Type.Boolean({
      description: 'By a direct grant, or because subject and resource are the same',
    }),
  ),
  paths: Type.Optional(
    Type.Array(Type.String(), {
      description: 'The deciding relations, or * for what everybody may',
    }),
  ),
  missing: Type.Optional(
    Type.Array(Type.String(), { description: 'Context values on which the answer hangs' }),
  ),
  wouldAllow: Type.Optional(
    Type.Array(
      Type.Object({
        sentence: Type.String(),
        change: Type.Enum(['write', 'delete', 'condition', 'field', 'rule'], {
          description:
            'The relation is written or deleted (POST /authorization/relations/write), its condition holds, a field of the record says it or the record fits the rule, or does so no longer',
        }),
        tuple: Type.Optional(TupleShape),
        condition: Type.Optional(Type.String()),
        field: Type.Optional(Type.String()),
        resource: Type.Optional(Type.String({ description: 'The record that the rule is about' })),
        rule: Type.Optional(Type.String()),
        fits: Type.Optional(
          Type.Boolean({
            description:
              'Whether the record must fit the rule or the field must name the subject, or must not',
          }),
        ),
      }),
      {
        description:
          'Of a denial: single changes after which it would be allowed, the nearest first; at most 5',
      },
    ),
  ),
  names: Type.Record(Type.String(), Type.String(), {
    description: 'What people call the objects that the sentences speak of',
  }),
  reason: ReasonShape,
});

interface Asked {
  readonly caller: Caller;
  readonly input: Static<typeof Question> & Static<typeof Page>;
  readonly around: Static<typeof EvaluationContext>;
}

async function evaluate(services: ExplanationServices, { caller, input, around }: Asked) {
  services.tokens.require(input.consistencyToken);
  const options = { ...(await askOptions(services, around)), suggest: true };
  const asked = questionOf(input);
  const explanation = await asRequested(ofQuestion, () => services.checks.explain(asked, options));
  const told = await services.tell(caller, asked, explanation);
  const { allowed, outcome, missing } = explanation;
  const answer = {
    outcome,
    sentence: told.sentence,
    allowed,
    names: Object.fromEntries(told.names),
    reason: bounded(explanation, input),
  };
  if (outcome === 'undecided') return { ...answer, missing: [...missing] };
  if (!allowed) return { ...answer, wouldAllow: told.wouldAllow.map(suggestionOnWire) };
  const paths = [...new Set(decidingTexts(explanation))];
  const assigned = isItself(input) || paths.some((path) => path.includes('#can:'));
  return { ...answer, assigned, paths: paths.length === 0 && !assigned ? ['*'] : paths };
}

/** Whether it is the resource itself that is asked about; a scope stands in the place of the subject. */
const isItself = ({ subject, scope, resource }: Static<typeof Question>): boolean =>
  formatSubject(parseSubject(scope || subject, 'subject')) ===
  formatObject(parseObject(resource, 'resource'));

/** The relations on which an allowed line rests, from the resource on. */
const decidingTexts = ({ allowed, tuple, parts: lines }: Reason): readonly string[] =>
  allowed ? [...(tuple === undefined ? [] : [tuple]), ...lines.flatMap(decidingTexts)] : [];

/** In the form in which relations are written. */
function tupleOnWire({ subject, relation, resource }: Tuple): Static<typeof TupleShape> {
  const permission = grantedAction(relation);
  const [who, what] = [formatSubject(subject), formatObject(resource)];
  return permission === undefined
    ? { subject: who, relation, resource: what }
    : { subject: who, permission, resource: what };
}

function suggestionOnWire(suggestion: ToldSuggestion) {
  const { sentence, kind: change } = suggestion;
  if (suggestion.kind === 'rule') {
    const { record, rule, fits } = suggestion;
    return { sentence, change, resource: formatObject(record), rule: rule.text, fits };
  }
  const { tuple, field, fits } = suggestion;
  return {
    sentence,
    change,
    tuple: tupleOnWire(tuple),
    ...(tuple.condition !== undefined && { condition: tuple.condition }),
    ...(field !== undefined && { field, fits: fits !== false }),
  };
}

/** The reasoning in the order in which it is read, until its lines are used up. */
function bounded(
  reason: Reason,
  { skip = 0, limit = 200 }: Static<typeof Page>,
): Static<typeof ReasonShape> {
  const budget = { lines: limit };
  const lineOf = ({
    allowed,
    about,
    because,
    tuple,
    parts,
  }: Reason): Static<typeof ReasonShape> => {
    budget.lines -= 1;
    const visible: Static<typeof ReasonShape>[] = [];
    for (const part of parts) {
      if (budget.lines <= 0) break;
      visible.push(lineOf(part));
    }
    const left = parts.length - visible.length;
    return {
      allowed,
      about,
      because,
      ...(tuple !== undefined && { tuple }),
      parts: visible,
      ...(left > 0 && { left }),
    };
  };
  return lineOf({ ...reason, parts: reason.parts.slice(skip) });
}

const evaluateByQuery = (services: ExplanationServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.evaluate',
    about: { resource: 'open' },
    method: 'GET',
    path: '/authorization/permissions/evaluate',
    input: { query: Type.Object({ ...question, ...page }) },
    output: Evaluation,
    errors: questionErrors,
    summary: 'Explain why a subject may do something, or may not',
    description:
      'One sentence with names, then a tree of reasons with the deciding relations; for a denial, what would have to be true.',
    handler: ({ caller }, { query }) => evaluate(services, { caller, input: query, around: {} }),
  });

const evaluateByBody = (services: ExplanationServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.evaluateWith',
    about: { resource: 'open' },
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/evaluate',
    strict: true,
    bodyLimit,
    input: { body: Type.Object({ ...question, ...page, ...contextKeys }) },
    output: Evaluation,
    errors: questionErrors,
    summary: 'Explain a decision under given circumstances',
    handler: ({ caller }, { body }) => evaluate(services, { caller, input: body, around: body }),
  });
