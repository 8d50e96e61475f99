/** Questions that operators ask about anybody: one, many, why, which, and who. */
import Type, { type Static, type TObject } from 'typebox';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import type { AskOptions, Reason } from '../engine/engine.ts';
import { formatObject, formatSubject, parseObject, parseSubject } from '../model/grammar.ts';
import { misfit } from '../model/validity.ts';
import type { Checks } from '../services/checks.ts';
import type { Models } from '../services/models.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';
import { asRequested, ofBatch, ofQuestion, ofResourceList } from './places.ts';
import {
  Context,
  cursorPaging,
  listErrors,
  Name,
  nameOf,
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

export const questionOperations = (services: QuestionServices): readonly Operation[] => [
  canByQuery(services),
  canByBody(services),
  evaluateByQuery(services),
  evaluateByBody(services),
  batch(services),
  listResources(services),
  listSubjects(services),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit, idempotency: false } as const;
const maxContextual = 100;
const maxQuestions = 50;
const bodyLimit = 256 * 1024;

const parts = { subject: Subject, permission: Name, resource: Resource };
const question = { ...parts, scope: Scope, consistencyToken: Token };
const circumstances = {
  context: Type.Optional(Context),
  contextualTuples: Type.Optional(
    Type.Array(Type.Object({ subject: Subject, relation: Name, resource: Resource, ...tupleExtras }), {
      maxItems: maxContextual,
      description: 'Relations that count for this question only',
    }),
  ),
};
const Circumstances = Type.Object(circumstances);
const Question = Type.Object(question);

const questionOf = ({ subject, permission, resource, scope }: Static<typeof Question>) => ({
  subject: parseSubject(subject, 'subject'),
  action: nameOf(permission, 'permission'),
  resource: parseObject(resource, 'resource'),
  scope,
});

/** What the engine takes into account. Contextual relations must be valid like stored ones. */
async function askOptions(
  { models }: QuestionServices,
  { context = {}, contextualTuples = [] }: Static<typeof Circumstances>,
): Promise<AskOptions> {
  // Only these are held against the model here; every question asks for what is in force itself.
  if (contextualTuples.length === 0) return { context, contextual: [] };
  const { model } = await models.engine();
  const now = new Date().toISOString();
  const contextual = contextualTuples.map((input, i) => {
    const place = `contextualTuples.${i}.`;
    const { expiresAt, ...tuple } = tupleOf({ ...input, relation: nameOf(input.relation, `${place}relation`) }, place);
    const [fault] = misfit(model, tuple)?.errors ?? [];
    if (fault) throw invalid(place + fault.path, fault.rule, fault.message);
    return { ...tuple, ...(expiresAt === undefined ? {} : { expired: expiresAt <= now }) };
  });
  return { context, contextual };
}

const Allowed = Type.Object({ allowed: Type.Boolean() });

async function can(services: QuestionServices, input: Static<typeof Question>, around: Static<typeof Circumstances>) {
  services.tokens.require(input.consistencyToken);
  const options = await askOptions(services, around);
  return { allowed: await asRequested(ofQuestion, () => services.checks.can(questionOf(input), options)) };
}

const scopeRule = 'With a scope, whether the scope may, if the subject may do the same on the scope (else false).';

const canByQuery = (services: QuestionServices): Operation =>
  defineOperation({
    ...facts,
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
    ...facts,
    id: 'authorization.permissions.canWith',
    about: { resource: 'open' },
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/can',
    bodyLimit,
    input: { body: Type.Object({ ...question, ...circumstances }) },
    output: Allowed,
    errors: questionErrors,
    summary: 'Ask whether a subject may do something under given circumstances',
    description: `${scopeRule} Conditions see the context; relations given here count for this question only.`,
    handler: (_context, { body }) => can(services, body, body),
  });

/** A line of reasoning; its parts have the same shape. */
const ReasonShape = Type.Object({
  allowed: Type.Boolean(),
  about: Type.String(),
  because: Type.String(),
  tuple: Type.Optional(Type.String()),
  parts: Type.Array(Type.Unknown({ description: 'Lines of the same shape' })),
});

const Evaluation = Type.Object({
  allowed: Type.Boolean(),
  assigned: Type.Optional(Type.Boolean({ description: 'By a direct grant, or because subject and resource are the same' })),
  paths: Type.Optional(Type.Array(Type.String(), { description: 'The deciding relations, or * for what everybody may' })),
  reason: ReasonShape,
});

async function evaluate(services: QuestionServices, input: Static<typeof Question>, around: Static<typeof Circumstances>) {
  services.tokens.require(input.consistencyToken);
  const options = await askOptions(services, around);
  const reason = await asRequested(ofQuestion, () => services.checks.explain(questionOf(input), options));
  const { allowed } = reason;
  if (!allowed) return { allowed, reason: reasonOnWire(reason) };
  const paths = [...new Set(decidingTuples(reason))];
  const assigned = isItself(input) || paths.some((path) => path.includes('#can:'));
  return { allowed, assigned, paths: paths.length === 0 && !assigned ? ['*'] : paths, reason: reasonOnWire(reason) };
}

/** Whether it is the resource itself that is asked about; a scope stands in the place of the subject. */
const isItself = ({ subject, scope, resource }: Static<typeof Question>): boolean =>
  formatSubject(parseSubject(scope || subject, 'subject')) === formatObject(parseObject(resource, 'resource'));

const reasonOnWire = ({ parts: lines, ...line }: Reason): Static<typeof ReasonShape> => ({ ...line, parts: lines.map(reasonOnWire) });

/** The relations on which an allowed line rests, from the resource on. */
const decidingTuples = ({ allowed, tuple, parts: lines }: Reason): readonly string[] =>
  allowed ? [...(tuple === undefined ? [] : [tuple]), ...lines.flatMap(decidingTuples)] : [];

const evaluateByQuery = (services: QuestionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.evaluate',
    about: { resource: 'open' },
    method: 'GET',
    path: '/authorization/permissions/evaluate',
    input: { query: Question },
    output: Evaluation,
    errors: questionErrors,
    summary: 'Explain why a subject may do something, or may not',
    description: 'A tree of reasons with the deciding relations; for a denial, with what is missing.',
    handler: (_context, { query }) => evaluate(services, query, {}),
  });

const evaluateByBody = (services: QuestionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.evaluateWith',
    about: { resource: 'open' },
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/evaluate',
    bodyLimit,
    input: { body: Type.Object({ ...question, ...circumstances }) },
    output: Evaluation,
    errors: questionErrors,
    summary: 'Explain a decision under given circumstances',
    handler: (_context, { body }) => evaluate(services, body, body),
  });

const batch = (services: QuestionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.check',
    method: 'POST',
    readOnly: true,
    path: '/authorization/permissions/check',
    bodyLimit,
    input: {
      body: Type.Object({
        checks: Type.Array(Type.Object(parts), { minItems: 1, maxItems: maxQuestions }),
        consistencyToken: Token,
        ...circumstances,
      }),
    },
    output: Type.Object({ results: Type.Array(Allowed) }),
    errors: questionErrors,
    summary: 'Ask many questions at once',
    description: 'At most 50; answered in their order, all from the same state.',
    async handler(_context, { body: { checks: asked, consistencyToken, ...around } }) {
      services.tokens.require(consistencyToken);
      const questions = asked.map(({ subject, permission, resource }, i) => ({
        subject: parseSubject(subject, `checks.${i}.subject`),
        action: nameOf(permission, `checks.${i}.permission`),
        resource: parseObject(resource, `checks.${i}.resource`),
      }));
      const options = await askOptions(services, around);
      const answers = await asRequested(ofBatch, () => services.checks.canAll(questions, options));
      return { results: answers.map((allowed) => ({ allowed })) };
    },
  });

const listQuery = <F extends TObject['properties']>(fields: F) => Type.Object({ ...fields, ...cursorPaging, consistencyToken: Token });
const cursorOut = Type.Optional(Type.String({ description: 'Goes on after this page; absent at the end' }));

const listResources = ({ database, models, tokens }: QuestionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.resources',
    about: { resourceType: 'open' },
    method: 'GET',
    path: '/authorization/permissions/resources',
    input: { query: listQuery({ subject: Subject, permission: Name, resourceType: Name }) },
    output: Type.Object({ resources: Type.Array(Type.String()), cursor: cursorOut }),
    errors: listErrors,
    summary: 'List the resources of a type on which a subject may act',
    description: 'By id. Never cut short in silence: as long as there is more, there is a cursor.',
    async handler(_context, { query: { subject, permission, resourceType, consistencyToken, ...page } }) {
      tokens.require(consistencyToken);
      const engine = await models.engine();
      const type = nameOf(resourceType, 'resourceType');
      const question = { subject: parseSubject(subject, 'subject'), action: nameOf(permission, 'permission'), type };
      const found = await asRequested(ofResourceList, () => engine.listResources(database, question, page));
      return { resources: found.items.map((id) => `${type}:${id}`), ...(found.cursor === undefined ? {} : { cursor: found.cursor }) };
    },
  });

const listSubjects = ({ database, models, tokens }: QuestionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.permissions.subjects',
    about: { resource: 'open' },
    method: 'GET',
    path: '/authorization/permissions/subjects',
    input: { query: listQuery({ resource: Resource, permission: Name, subjectType: Type.String({ default: 'User', maxLength: 128 }) }) },
    output: Type.Object({ subjects: Type.Array(Type.String()), cursor: cursorOut }),
    errors: listErrors,
    summary: 'List who may do something on a resource',
    description: 'Objects of one type; <Type>:* stands for all of them.',
    async handler(_context, { query: { resource, permission, subjectType, consistencyToken, ...page } }) {
      tokens.require(consistencyToken);
      const engine = await models.engine();
      const type = nameOf(subjectType, 'subjectType');
      const question = { resource: parseObject(resource, 'resource'), action: nameOf(permission, 'permission'), type };
      const found = await asRequested(ofQuestion, () => engine.listSubjects(database, question, page));
      return { subjects: [...found.items], ...(found.cursor === undefined ? {} : { cursor: found.cursor }) };
    },
  });
