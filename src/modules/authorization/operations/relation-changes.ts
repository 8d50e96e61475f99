/** Different relations and direct grants in one call: what is written, what is deleted, and what must hold for it. */
import Type, { type Static } from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { grantedAction, grantRelation } from '../model/model.ts';
import type { StoredTuple, TimedTuple, TupleKind } from '../queries.ts';
import type { ChangeRelations, Precondition } from '../services/relation-changes.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';
import {
  Name,
  nameOf,
  Permission,
  permissionOnWire,
  Relation,
  Resource,
  relationOnWire,
  Subject,
  tupleExtras,
  tupleOf,
  written,
} from './shapes.ts';

interface ChangeServices {
  readonly change: ChangeRelations;
  readonly tokens: ConsistencyTokens;
  /** Most relations that one request may change. */
  readonly maxBatch: () => number;
}

export const changeOperations = (services: ChangeServices): readonly Operation[] => [
  writeMany(services),
];

const MAX_PRECONDITIONS = 100;
const bodyLimit = 2 * 1024 * 1024;

/** A relation, or a direct grant of an action. */
const what = {
  subject: Subject,
  resource: Resource,
  relation: Type.Optional(Name),
  permission: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description: 'Instead of a relation: an action that is granted directly',
    }),
  ),
};
const Write = Type.Object({ ...what, ...tupleExtras });
const Delete = Type.Object(what);
const Condition = Type.Object({
  exists: Type.Boolean({
    description: 'Whether a relation that matches must be there, or none may be',
  }),
  subject: Type.Optional(Subject),
  resource: Type.Optional(Resource),
  relation: what.relation,
  permission: what.permission,
});

const list = <T extends Type.TSchema>(items: T, description: string, maxItems = 1000) =>
  Type.Optional(Type.Array(items, { maxItems, description }));

const writeMany = ({ change, tokens, maxBatch }: ChangeServices): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    id: 'authorization.relations.write',
    method: 'POST',
    path: '/authorization/relations/write',
    strict: true,
    bodyLimit,
    input: {
      body: Type.Object({
        writes: list(Write, 'What will be there; what is there already counts as written'),
        deletes: list(Delete, 'What will not be there; what is not there counts as deleted'),
        preconditions: list(Condition, 'What must hold, or nothing is changed', MAX_PRECONDITIONS),
      }),
    },
    output: Type.Object({
      written: Type.Array(Type.Union([Relation, Permission])),
      deleted: Type.Integer({ description: 'How many of those to delete there were' }),
    }),
    errors: [errors.PRECONDITION_FAILED],
    summary: 'Write and delete different relations together',
    description:
      'All of it in one transaction, or nothing: 412 with the first precondition that does not hold. At most 1,000 writes and deletes. Relations that a precondition found stay until the end; that none is there is held against other calls with preconditions that name the same objects, and a call that writes the relation itself cannot write it twice.',
    async handler({ caller }, { body: { writes = [], deletes = [], preconditions = [] } }) {
      const max = maxBatch();
      if (writes.length + deletes.length === 0)
        throw invalid('writes', 'required', 'give writes, deletes or both');
      if (writes.length + deletes.length > max)
        throw invalid('writes', 'maxItems', `at most ${max} writes and deletes at once`);
      const outcome = await change(caller, {
        writes: writes.map((one, i) => writtenTuple(one, `writes.${i}.`)),
        deletes: deletes.map((one, i) => writtenTuple(one, `deletes.${i}.`)),
        preconditions: preconditions.map(preconditionOf),
      });
      return written(tokens, {
        written: outcome.written.map(onWire),
        deleted: outcome.deleted,
      });
    },
  });

const onWire = (tuple: StoredTuple) =>
  grantedAction(tuple.relation) === undefined ? relationOnWire(tuple) : permissionOnWire(tuple);

interface Named {
  readonly relation?: string;
  readonly permission?: string;
}

/** The stored name of what is meant: exactly one of the two is given. */
function storedName({ relation, permission }: Named, place: string): string {
  if ((relation === undefined) === (permission === undefined))
    throw invalid(`${place}relation`, 'required', 'give either relation or permission');
  return relation === undefined
    ? grantRelation(nameOf(permission ?? '', `${place}permission`))
    : nameOf(relation, `${place}relation`);
}

function writtenTuple(one: Static<typeof Write>, place: string): TimedTuple {
  const { relation: _, permission: __, ...rest } = one;
  return tupleOf({ ...rest, relation: storedName(one, place) }, place);
}

function preconditionOf(one: Static<typeof Condition>, i: number): Precondition {
  const place = `preconditions.${i}.`;
  const { subject, resource, exists } = one;
  if (subject === undefined && resource === undefined)
    throw invalid(`${place}resource`, 'required', 'give the subject, the resource or both');
  const kind: TupleKind = one.permission === undefined ? 'relation' : 'permission';
  const isNamed = one.relation !== undefined || one.permission !== undefined;
  return {
    kind,
    exists,
    filter: {
      ...(subject !== undefined && { subject: parseSubject(subject, `${place}subject`) }),
      ...(resource !== undefined && { resource: parseObject(resource, `${place}resource`) }),
      ...(isNamed && { relation: storedName(one, place) }),
    },
  };
}
