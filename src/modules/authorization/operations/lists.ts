/** Lists: on which resources somebody may act, and who may act on one; for operators about anybody, for users about themselves. */
import Type, { type Static, type TObject } from 'typebox';
import { PenstockError } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { Page } from '../engine/engine.ts';
import { authorizationErrors } from '../errors.ts';
import { parseObject, parseSubject, type SubjectRef } from '../model/grammar.ts';
import { scopeRefused } from '../services/checks.ts';
import {
  askOptions,
  bodyLimit,
  contextKeys,
  type EvaluationContext,
  type QuestionServices,
  questionFacts,
} from './questions.ts';
import {
  asRequested,
  Context,
  cursorPaging,
  listErrors,
  Name,
  nameOf,
  ofQuestion,
  ofResourceList,
  questionErrors,
  Resource,
  Scope,
  Subject,
  Token,
  userOf,
} from './shapes.ts';

export const listOperations = (services: QuestionServices): readonly Operation[] => [
  resourcesByQuery(services),
  resourcesByBody(services),
  subjectsByQuery(services),
  subjectsByBody(services),
  subjectsOfMany(services),
  ownResources(services),
];

const listOf = <F extends TObject['properties']>(fields: F) =>
  Type.Object({ ...fields, ...cursorPaging, consistencyToken: Token });

/** A body has no defaults of its own. */
const bodyOf = <F extends TObject['properties']>(fields: F) =>
  Type.Object({
    ...fields,
    cursor: cursorPaging.cursor,
    limit: Type.Optional(cursorPaging.limit),
    consistencyToken: Token,
  });
const DEFAULT_LIMIT = 25;

const pageOut = {
  cursor: Type.Optional(Type.String({ description: 'Goes on after this page; absent at the end' })),
  incomplete: Type.Optional(
    Type.Boolean({
      description: 'Something was left out because a value that it depends on was missing',
    }),
  ),
};

const pageOnWire = ({ cursor, incomplete }: Page<string>) => ({
  ...(cursor === undefined ? {} : { cursor }),
  ...(incomplete && { incomplete }),
});

type Around = Static<typeof EvaluationContext>;

/* Which resources. */

const resourceKeys = { permission: Name, resourceType: Name };
const ResourceList = listOf(resourceKeys);
const ResourcesOut = Type.Object({ resources: Type.Array(Type.String()), ...pageOut });

async function listResources(
  { database, models, tokens }: QuestionServices,
  subject: SubjectRef,
  { permission, resourceType, consistencyToken, limit, cursor }: Static<typeof ResourceList>,
  around: Around,
): Promise<Static<typeof ResourcesOut>> {
  tokens.require(consistencyToken);
  const options = await askOptions({ models }, around);
  const engine = await models.engine();
  const type = nameOf(resourceType, 'resourceType');
  const question = { subject, action: nameOf(permission, 'permission'), type };
  const page = { limit, ...(cursor !== undefined && { cursor }), ...options };
  const found = await asRequested(ofResourceList, () =>
    engine.listResources(database, question, page),
  );
  return { resources: found.items.map((id) => `${type}:${id}`), ...pageOnWire(found) };
}

const resourceFacts = {
  path: '/authorization/permissions/resources',
  output: ResourcesOut,
  errors: listErrors,
  description:
    'By id. Never cut short in silence: as long as there is more, there is a cursor. Records in the trash are among them, as in checks: lists of records leave them out.',
} as const;

const resourcesByQuery = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    ...resourceFacts,
    id: 'authorization.permissions.resources',
    about: { resourceType: 'open' },
    method: 'GET',
    input: { query: listOf({ subject: Subject, ...resourceKeys }) },
    summary: 'List the resources of a type on which a subject may act',
    handler: (_context, { query }) =>
      listResources(services, parseSubject(query.subject, 'subject'), query, {}),
  });

const resourcesByBody = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    ...resourceFacts,
    id: 'authorization.permissions.resourcesWith',
    about: { resourceType: 'open' },
    method: 'POST',
    readOnly: true,
    strict: true,
    bodyLimit,
    input: { body: bodyOf({ subject: Subject, ...resourceKeys, ...contextKeys }) },
    summary: 'List the resources on which a subject may act under given circumstances',
    handler: (_context, { body }) =>
      listResources(
        services,
        parseSubject(body.subject, 'subject'),
        { ...body, limit: body.limit ?? DEFAULT_LIMIT },
        body,
      ),
  });

/** Relations of one's own making are not taken: through them one could find out what others hold. */
const ownResources = (services: QuestionServices): Operation =>
  defineOperation({
    ...resourceFacts,
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    idempotency: false,
    errors: [authorizationErrors.SCOPE_REFUSED, ...listErrors],
    id: 'authorization.resources',
    method: 'POST',
    readOnly: true,
    path: '/authorization/resources',
    strict: true,
    bodyLimit,
    input: {
      body: bodyOf({ ...resourceKeys, scope: Scope, context: Type.Optional(Context) }),
    },
    summary: 'List the resources of a type on which you may act',
    async handler(context, { body: { scope, context: values, ...list } }) {
      const around = values === undefined ? {} : { context: values };
      const subject = await services.checks.acting(
        userOf(context).subject,
        nameOf(list.permission, 'permission'),
        scope,
        await askOptions(services, around),
      );
      if (!subject) throw scopeRefused(list.permission, scope);
      return listResources(
        services,
        subject,
        { ...list, limit: list.limit ?? DEFAULT_LIMIT },
        around,
      );
    },
  });

/* Which subjects. */

const subjectType = {
  maxLength: 129,
  description: 'A type, or <Type>#<relation> for sets of those who stand in it',
} as const;
const SubjectList = listOf({
  resource: Resource,
  permission: Name,
  subjectType: Type.String({ default: 'User', ...subjectType }),
});
const SubjectsOut = Type.Object({ subjects: Type.Array(Type.String()), ...pageOut });

async function listSubjects(
  { database, models, tokens }: QuestionServices,
  list: Static<typeof SubjectList>,
  around: Around,
): Promise<Static<typeof SubjectsOut>> {
  const { resource, permission, consistencyToken, limit, cursor } = list;
  tokens.require(consistencyToken);
  const options = await askOptions({ models }, around);
  const engine = await models.engine();
  const question = {
    resource: parseObject(resource, 'resource'),
    action: nameOf(permission, 'permission'),
    ...sortOf(list.subjectType),
  };
  const page = { limit, ...(cursor !== undefined && { cursor }), ...options };
  const found = await asRequested(ofQuestion, () => engine.listSubjects(database, question, page));
  return { subjects: [...found.items], ...pageOnWire(found) };
}

/** `Type`, or `Type#relation`. */
function sortOf(text: string): { readonly type: string; readonly relation?: string } {
  const [type = '', ...relation] = text.split('#');
  return {
    type: nameOf(type, 'subjectType'),
    ...(relation.length > 0 && { relation: nameOf(relation.join('#'), 'subjectType') }),
  };
}

const subjectFacts = {
  path: '/authorization/permissions/subjects',
  output: SubjectsOut,
  errors: listErrors,
  description:
    'Objects of one type, where <Type>:* stands for all of them; or, with a relation, sets of those who stand in it. Who is named by a record alone and is not there (a deleted user) is left out. A record in the trash answers as it did before.',
} as const;

const subjectsByQuery = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    ...subjectFacts,
    id: 'authorization.permissions.subjects',
    about: { resource: 'open' },
    method: 'GET',
    input: { query: SubjectList },
    summary: 'List who may do something on a resource',
    handler: (_context, { query }) => listSubjects(services, query, {}),
  });

const subjectsByBody = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    ...subjectFacts,
    id: 'authorization.permissions.subjectsWith',
    about: { resource: 'open' },
    method: 'POST',
    readOnly: true,
    strict: true,
    bodyLimit,
    input: {
      body: bodyOf({
        resource: Resource,
        permission: Name,
        subjectType: Type.Optional(Type.String(subjectType)),
        ...contextKeys,
      }),
    },
    summary: 'List who may do something on a resource under given circumstances',
    handler: (_context, { body }) =>
      listSubjects(
        services,
        {
          ...body,
          limit: body.limit ?? DEFAULT_LIMIT,
          subjectType: body.subjectType ?? 'User',
        },
        body,
      ),
  });

const MAX_RESOURCES = 50;
const MAX_EACH = 100;

const SubjectsOfOne = Type.Object({
  resource: Type.String(),
  subjects: Type.Array(Type.String()),
  ...pageOut,
  undecided: Type.Optional(
    Type.Object(
      { code: Type.String(), message: Type.String() },
      { description: 'Why there is no list of this one' },
    ),
  ),
});

/** What cannot be listed says so in its own place. */
const subjectsOfMany = (services: QuestionServices): Operation =>
  defineOperation({
    ...questionFacts,
    id: 'authorization.permissions.subjectsOfMany',
    about: { resources: 'open' },
    method: 'POST',
    path: '/authorization/permissions/subjects/many',
    readOnly: true,
    strict: true,
    bodyLimit,
    input: {
      body: Type.Object({
        resources: Type.Array(Resource, {
          minItems: 1,
          maxItems: MAX_RESOURCES,
          description: 'Up to 50 objects, as <Type>:<id>',
        }),
        permission: Name,
        subjectType: Type.Optional(Type.String(subjectType)),
        limit: Type.Optional(
          Type.Integer({ minimum: 1, maximum: MAX_EACH, description: 'Of each resource' }),
        ),
        consistencyToken: Token,
        ...contextKeys,
      }),
    },
    output: Type.Object({ results: Type.Array(SubjectsOfOne) }),
    errors: questionErrors,
    summary: 'List who may do something on several resources',
    description:
      'The first page of each, in the order of the resources; a cursor goes on with POST /authorization/permissions/subjects.',
    async handler(_context, { body: { resources, ...body } }) {
      for (const [i, resource] of resources.entries()) parseObject(resource, `resources.${i}`);
      const list = { limit: DEFAULT_LIMIT, subjectType: 'User', ...body };
      const results: Static<typeof SubjectsOfOne>[] = [];
      for (const [i, resource] of resources.entries())
        results.push({ resource, ...(await subjectsOrWhy(services, { ...list, resource }, i)) });
      return { results };
    },
  });

async function subjectsOrWhy(
  services: QuestionServices,
  list: Static<typeof SubjectList> & Around,
  index: number,
): Promise<Omit<Static<typeof SubjectsOfOne>, 'resource'>> {
  const rename = (path: string): string => (path === 'resource' ? `resources.${index}` : path);
  try {
    return await asRequested(rename, () => listSubjects(services, list, list));
  } catch (error) {
    if (!(error instanceof PenstockError && noAnswer.has(error.code))) throw error;
    return { subjects: [], undecided: { code: error.code, message: error.message } };
  }
}

const noAnswer: ReadonlySet<string> = new Set(questionErrors.map(({ code }) => code));
