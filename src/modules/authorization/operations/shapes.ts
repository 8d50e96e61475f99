/** Shapes that several operations of authorization share, and how stored things go on the wire. */

import type { Static } from 'typebox';
import Type from 'typebox';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors, invalid, relocated } from '../../../kernel/errors.ts';
import { Reply } from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { engineErrors } from '../engine/limits.ts';
import {
  formatObject,
  formatSubject,
  isName,
  parseObject,
  parseSubject,
  type SubjectRef,
} from '../model/grammar.ts';
import { grantRelation } from '../model/model.ts';
import type { StoredTuple, TimedTuple } from '../queries.ts';
import type { DefinitionOutcome } from '../services/definitions/put-definition.ts';
import type { StoredDefinition } from '../services/definitions/stored-definition.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';

/* Places of problems, as requests name them: the engine and the tuples have one set of names, the routes have theirs. */

type Rename = (path: string) => string;

/** Does the work; what it refuses is told by the names that the request has for it. */
export async function asRequested<T>(rename: Rename, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw relocated(error, rename);
  }
}

/** One question: what the engine calls an action is a permission on the wire. */
export const ofQuestion: Rename = (path) => (path === 'action' ? 'permission' : path);

/** A list of resources: it has no resource, but the type of one. */
export const ofResourceList: Rename = (path) =>
  path === 'resource' ? 'resourceType' : ofQuestion(path);

/** A batch: the engine counts the questions where there are several. */
export const ofBatch: Rename = (path) =>
  path.replace(
    /^(?:(\d+)\.)?(subject|action|resource)$/,
    (_, i = '0', part) => `checks.${i}.${ofQuestion(part)}`,
  );

/** Several relations at once: a single one is counted as well. */
export const ofMany: Rename = (path) => (path === 'resource' ? 'resources.0' : path);

export const Instant = Type.String({ format: 'date-time' });
const Reference = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: maxReferenceLength, description, examples: [example] });

const someId = '0198a2c4-7d1e-7b3a-9c52-4f6e8d0b1a27';
export const Subject = Reference(
  '<Type>:<id>, <Type>:<id>#<relation>, <Type>:* or * (everybody)',
  `User:${someId}`,
);
export const Resource = Reference('<Type>:<id>', `Post:${someId}`);
export const Name = Type.String({
  minLength: 1,
  maxLength: 128,
  description: 'Name of an action, a relation or a type',
  examples: ['read'],
});
export const Scope = Type.Optional(
  Type.String({
    maxLength: maxReferenceLength,
    description: 'Act on behalf of this object, as <Type>:<id>',
  }),
);
export const Token = Type.Optional(
  Type.String({
    maxLength: 128,
    description: 'The consistency token of a write that the answer must know',
  }),
);
export const Context = Type.Record(Type.String({ maxLength: 64 }), Type.Unknown(), {
  description: 'What conditions may look at',
});
export const Id = Type.String({ format: 'uuid' });
export const describedId = (of: string) =>
  Type.String({ format: 'uuid', description: `Id of the ${of}` });
export const RefParam = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 128, description: 'Id or name' }),
});

/** Paging of admin lists. */
export const paging = {
  ...pagingQuery(),
};

/** The order of a list by one of these fields, `-` in front for descending. */
export const sortBy = (fields: Iterable<string>, first: string) =>
  Type.Enum(
    [...fields].flatMap((name) => [name, `-${name}`]),
    { default: first, description: 'What to order by; - in front: descending' },
  );

export const cursorPaging = {
  limit: Type.Integer({ default: 25, minimum: 1, maximum: 1000, description: 'How many at most' }),
  cursor: Type.Optional(
    Type.String({ maxLength: 4096, description: 'Where the page before ended' }),
  ),
};

const tupleFields = {
  subject: Type.String(),
  subjectId: Type.String(),
  subjectType: Type.String(),
  resource: Type.String(),
  resourceId: Type.String(),
  resourceType: Type.String(),
  computedTuple: Type.String(),
  createdAt: Instant,
  updatedAt: Instant,
  expiresAt: Type.Optional(Instant),
};

/** Of a stored relation, or of a field of a record. */
const recordPart = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}';
const RelationId = Type.String({
  maxLength: 256,
  pattern: `^([A-Za-z]\\w{0,63}\\.[A-Za-z]\\w{0,63}\\.${recordPart}(\\.${recordPart})?|${recordPart})$`,
  description:
    'A UUID; of a relation that is a field of a record <Type>.<relation>.<record>, for lists with .<subject>',
  examples: [someId],
});
export const RelationIdParam = Type.Object({ id: RelationId });

export const Relation = Type.Object({
  _id: RelationId,
  source: Type.Optional(
    Type.Literal('record', { description: 'It is a field of the record: change the record' }),
  ),
  relation: Type.String(),
  ...tupleFields,
  subjectRelation: Type.Optional(
    Type.String({ description: 'Set for subject sets: everybody who stands in this relation' }),
  ),
  condition: Type.Optional(Type.String()),
  attributes: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
});

export const Permission = Type.Object({ _id: Id, permission: Type.String(), ...tupleFields });

const tupleOnWire = (
  { id, subject, resource, createdAt, updatedAt, expiresAt }: StoredTuple,
  word: string,
) => ({
  _id: id,
  subject: formatSubject(subject),
  subjectId: subject.id,
  subjectType: subject.type,
  resource: formatObject(resource),
  resourceId: resource.id,
  resourceType: resource.type,
  computedTuple: `${formatSubject(subject)}#${word}@${formatObject(resource)}`,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
  ...(expiresAt === undefined ? {} : { expiresAt }),
});

export function relationOnWire(tuple: StoredTuple): Static<typeof Relation> {
  const { relation, subject, condition, attributes, source } = tuple;
  return {
    ...tupleOnWire(tuple, relation),
    relation,
    ...(source && { source }),
    ...(subject.relation === '' ? {} : { subjectRelation: subject.relation }),
    ...(condition === undefined ? {} : { condition }),
    ...(attributes === undefined ? {} : { attributes: { ...attributes } }),
  };
}

export function permissionOnWire(tuple: StoredTuple): Static<typeof Permission> {
  const permission = tuple.relation.slice(grantRelation('').length);
  return { ...tupleOnWire(tuple, permission), permission };
}

/** Why a single question may have no answer. */
export const questionErrors = [engineErrors.BREADTH_EXCEEDED, engineErrors.CONTEXT_MISSING];
export const listErrors = [
  ...questionErrors,
  engineErrors.PERMISSION_SET_TOO_LARGE,
  engineErrors.CURSOR_INVALID,
];

/** A relation or action as somebody writes it. 400 for what cannot be the name of one, such as the inner form of a grant. */
export function nameOf(text: string, path: string): string {
  if (!isName(text))
    throw invalid(
      path,
      'name',
      'must start with a letter and hold only letters, digits and underscores, at most 64',
    );
  return text;
}

const maxAttributeText = 4096;

/** What a tuple may carry beside its three parts. */
export const tupleExtras = {
  condition: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Name of a condition of the resource type that must hold',
    }),
  ),
  attributes: Type.Optional(
    Type.Record(Type.String({ maxLength: 64 }), Type.Unknown(), {
      description: 'What the condition may look at; at most 4 KiB',
    }),
  ),
  expiresAt: Type.Optional(
    Type.String({ format: 'date-time', description: 'The relation counts until then' }),
  ),
};

/** The parts of a tuple as a body gives them. */
interface TupleInput {
  readonly subject: string;
  readonly relation: string;
  readonly resource: string;
  readonly condition?: string;
  readonly attributes?: Record<string, unknown>;
  readonly expiresAt?: string;
}

/** Parses; 400 with the place below `place`. */
export function tupleOf(
  { subject, relation, resource, condition, attributes, expiresAt }: TupleInput,
  place = '',
): TimedTuple {
  if (attributes && JSON.stringify(attributes).length > maxAttributeText) {
    throw invalid(`${place}attributes`, 'size', `at most ${maxAttributeText} characters of JSON`);
  }
  return {
    subject: parseSubject(subject, `${place}subject`),
    relation,
    resource: parseObject(resource, `${place}resource`),
    condition,
    attributes,
    ...(expiresAt === undefined ? {} : { expiresAt: instantOf(expiresAt) }),
  };
}

/** The same moment in the one form in which moments are compared. */
export const instantOf = (text: string): string => new Date(text).toISOString();

export const Definition = Type.Object({
  _id: Id,
  name: Type.String(),
  relations: Type.Record(Type.String(), Type.Unknown()),
  permissions: Type.Record(Type.String(), Type.Unknown()),
  conditions: Type.Record(Type.String(), Type.Unknown()),
  actAs: Type.Optional(
    Type.String({ description: 'Action on a scope of this type that lets somebody act for it' }),
  ),
  version: Type.Integer(),
  createdAt: Instant,
  updatedAt: Instant,
});

export function definitionOnWire({
  id,
  actAs,
  ...rest
}: StoredDefinition): Static<typeof Definition> {
  const { relations, permissions, conditions } = rest;
  return {
    ...rest,
    _id: id,
    relations: { ...relations },
    permissions: { ...permissions },
    conditions: { ...conditions },
    ...(actAs === null ? {} : { actAs }),
  };
}

/** What a change of a definition does to people. */
export const Warning = Type.Object({
  action: Type.String(),
  changed: Type.Integer({
    description:
      'On so many objects the action is given by something else than before; counted up to 100,000',
  }),
  closed: Type.Integer({ description: 'Of so many nothing gives it to anybody any more' }),
  lockedOut: Type.Boolean({ description: 'No object is left on which somebody may do it' }),
  message: Type.String({
    description:
      'Where `changed` is 0: a slip in a rule, such as a value that the field cannot have',
  }),
});

export const Outcome = Type.Object({
  status: Type.Enum(['processed', 'acknowledged', 'ignored']),
  resourceDefinition: Definition,
  removedRelations: Type.Integer({
    description: 'Stored relations that did not fit any more and were deleted; only with force',
  }),
  warnings: Type.Array(Warning, { description: 'What the change does to people' }),
  message: Type.Optional(
    Type.String({ description: 'Why another content was ignored, and what to send instead' }),
  ),
});

export const outcomeOnWire = ({
  status,
  resourceDefinition,
  removedRelations,
  warnings,
  message,
}: DefinitionOutcome): Static<typeof Outcome> => ({
  status,
  resourceDefinition: definitionOnWire(resourceDefinition),
  removedRelations,
  warnings: [...warnings],
  ...(message !== undefined && { message }),
});

/** The user of an operation with user access, also as a subject. */
export function userOf({
  caller,
}: OperationContext): UserCaller & { readonly subject: SubjectRef } {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return { ...caller, subject: { type: 'User', id: caller.userId, relation: '' } };
}

/** The answer of a write: its JSON, with the consistency token as a header. */
export const written = (tokens: ConsistencyTokens, body: unknown): Reply =>
  Reply.json(JSON.stringify(body), { 'consistency-token': tokens.issue() });
