/** Questions that operators ask about anybody: one, many, and why. */
import Type, { type Static } from 'typebox';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { Answer, AskOptions } from '../engine/engine.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { tupleProblem } from '../model/tuple.ts';
import type { Checks } from '../services/checks.ts';
import type { Models } from '../services/definitions/models.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';
import {
  asRequested,
  Context,
  Name,
  nameOf,
  ofBatch,
  ofQuestion,
  questionErrors,
  Resource,
  Scope,
  Subject,
  Token,
  tupleExtras,
  tupleOf,
} from './shapes.ts';

export interface QuestionServices {
  readonly database: Database;
  readonly models: Models;
  readonly checks: Checks;
  readonly tokens: ConsistencyTokens;
}

/*
 * Questions with a body are strict: a misspelt `condition` of a contextual relation would be a right without one, and a
 * context that stands in the wrong place would not be looked at.
 */
export const questionOperations = (services: QuestionServices): readonly Operation[] => [
  canByQuery(services),
  canByBody(services),
  batch(services),
];

export const questionFacts = {
  surface: 'admin',
  access: 'admin',
  limit: standardLimit,
  idempotency: false,
} as const;
const maxContextual = 100;
export const maxQuestions = 50;
export const bodyLimit = 256 * 1024;

const parts = { subject: Subject, permission: Name, resource: Resource };
export const question = { ...parts, scope: Scope, consistencyToken: Token };
export const contextKeys = {
  context: Type.Optional(Context),
  contextualTuples: Type.Optional(
    Type.Array(
      Type.Object({ subject: Subject, relation: Name, resource: Resource, ...tupleExtras }),
      {
        maxItems: maxContextual,
        description: 'Relations that count for this question only',
      },
    ),
  ),
};
export const EvaluationContext = Type.Object(contextKeys);
export const Question = Type.Object(question);

export const questionOf = ({ subject, permission, resource, scope }: Static<typeof Question>) => ({
  subject: parseSubject(subject, 'subject'),
  action: nameOf(permission, 'permission'),
  resource: parseObject(resource, 'resource'),
  scope,
});

/** What the engine takes into account. Contextual relations must be valid like stored ones. */
export async function askOptions(
  { models }: Pick<QuestionServices, 'models'>,
  { context = {}, contextualTuples = [] }: Static<typeof EvaluationContext>,
): Promise<AskOptions> {
  // Only these are held against the model here; every question asks for what is in force itself.
  if (contextualTuples.length === 0) return { context, contextual: [] };
  const { model } = await models.engine();
  const now = new Date().toISOString();
  const contextual = contextualTuples.map((input, i) => {
    const place = `contextualTuples.${i}.`;
    const { expiresAt, ...tuple } = tupleOf(
      { ...input, relation: nameOf(input.relation, `${place}relation`) },
      place,
    );
    const [problem] = tupleProblem(model, tuple)?.errors ?? [];
    if (problem) throw invalid(place + problem.path, problem.rule, problem.message);
    return { ...tuple, ...(expiresAt === undefined ? {} : { expired: expiresAt <= now }) };
  });
  return { context, contextual };
}

const Allowed = Type.Object({ allowed: Type.Boolean() });

async function can(
  services: QuestionServices,
  input: Static<typeof Question>,
  around: Static<typeof EvaluationContext>,
) {
  services.tokens.require(input.consistencyToken);
  const options = await askOptions(services, around);
  return {
    allowed: await asRequested(ofQuestion, () => services.checks.can(questionOf(input), options)),
  };
}

const scopeRule =
  'With a scope, whether the scope may, if the subject may do the same on the scope (else false).';

const canByQuery = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.can',
    about: { resource: 'open' },
    method: 'GET',
    path: '/authorization/permissions/can',
    input: { query: Question },
    output: Allowed,
    errors: questionErrors,
    summary: 'Ask whether a subject may do something',
    description: `${scopeRule} Unknown types and actions are 400.`,
    handler: (_context, { query }) => can(services, query, {}),
  });

const canByBody = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.canWith',
    about: { resource: 'open' },
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/can',
    strict: true,
    bodyLimit,
    input: { body: Type.Object({ ...question, ...contextKeys }) },
    output: Allowed,
    errors: questionErrors,
    summary: 'Ask whether a subject may do something under given circumstances',
    description: `${scopeRule} Conditions see the context; relations given here count for this question only.`,
    handler: (_context, { body }) => can(services, body, body),
  });

export const BatchAnswer = Type.Object({
  allowed: Type.Boolean(),
  undecided: Type.Optional(
    Type.Object(
      {
        code: Type.String(),
        message: Type.String(),
        missing: Type.Array(Type.String(), { description: 'Values of the context' }),
      },
      { description: 'Why there is no answer' },
    ),
  ),
});

const contextPath = 'context.';

export const answerOnWire = ({ allowed, undecided }: Answer): Static<typeof BatchAnswer> => ({
  allowed,
  ...(undecided && {
    undecided: {
      code: undecided.code,
      message: undecided.message,
      missing: (undecided.errors ?? []).flatMap(({ path }) =>
        path.startsWith(contextPath) ? [path.slice(contextPath.length)] : [],
      ),
    },
  }),
});

const batch = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.check',
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/check',
    strict: true,
    bodyLimit,
    input: {
      body: Type.Object({
        checks: Type.Array(Type.Object(parts), {
          minItems: 1,
          maxItems: maxQuestions,
          description: 'The questions; each has its own answer',
        }),
        consistencyToken: Token,
        ...contextKeys,
      }),
    },
    output: Type.Object({ results: Type.Array(BatchAnswer) }),
    errors: questionErrors,
    summary: 'Ask many questions at once',
    description:
      'At most 50; answered in their order. One that has no answer is not allowed, says why, and does not stand in the way of the others.',
    async handler(_context, { body: { checks: asked, consistencyToken, ...around } }) {
      services.tokens.require(consistencyToken);
      const questions = asked.map(({ subject, permission, resource }, i) => ({
        subject: parseSubject(subject, `checks.${i}.subject`),
        action: nameOf(permission, `checks.${i}.permission`),
        resource: parseObject(resource, `checks.${i}.resource`),
      }));
      const options = await askOptions(services, around);
      const answers = await asRequested(ofBatch, () => services.checks.answers(questions, options));
      return { results: answers.map(answerOnWire) };
    },
  });
