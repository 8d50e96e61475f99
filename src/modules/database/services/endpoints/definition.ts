/** What a custom endpoint is (spec/database.md 5.7): the shapes of the wire, and the stored form. */

import type { Static } from 'typebox';
import Type from 'typebox';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { adminOwner } from '../../../../kernel/authority.ts';
import type { Method } from '../../../../kernel/operations/operation.ts';

/** `operation` of the wire. `aggregate` is ours; the others are the reference's. */
export const endpointOperation = {
  get: 0,
  post: 1,
  put: 2,
  delete: 3,
  patch: 4,
  aggregate: 5,
} as const;

export const methodOf: readonly Method[] = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'GET'];

/** Where an input stands in the request. */
export const inputLocation = { body: 0, query: 1, path: 2 } as const;

/** `operation` of a comparison; 8 to 10 act as equality, which on a list means "holds this element". */
export const comparisonCode = {
  equal: 0,
  notEqual: 1,
  greater: 2,
  greaterOrEqual: 3,
  less: 4,
  lessOrEqual: 5,
  in: 6,
  notIn: 7,
  contains: 8,
} as const;
export const LAST_COMPARISON = 10;

/** `action` of an assignment, by its code. */
export const assignmentActions = ['set', 'increment', 'decrement', 'append', 'remove'] as const;

const inputTypes = [
  'String',
  'Number',
  'Boolean',
  'Date',
  'ObjectId',
  'JSON',
  'Relation',
  'Vector',
] as const;
export type InputType = (typeof inputTypes)[number];

const strict = { additionalProperties: false } as const;

export const InputShape = Type.Object(
  {
    name: Type.String({ maxLength: 64 }),
    type: Type.Enum([...inputTypes]),
    location: Type.Integer({ minimum: 0, maximum: 2, description: '0 body, 1 query, 2 path' }),
    optional: Type.Optional(Type.Boolean()),
    array: Type.Optional(Type.Boolean()),
  },
  strict,
);

export const AssignmentShape = Type.Object(
  {
    schemaField: Type.String({ maxLength: 64 }),
    action: Type.Integer({
      minimum: 0,
      maximum: 4,
      description: '0 set, 1 increment, 2 decrement, 3 append, 4 remove',
    }),
    assignmentField: Type.Object(
      { type: Type.Enum(['Input', 'Custom', 'Context']), value: Type.Optional(Type.Unknown()) },
      strict,
    ),
  },
  strict,
);

export const AggregateShape = Type.Object(
  {
    groupBy: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 8 })),
    values: Type.Array(
      Type.Object(
        {
          as: Type.String({ maxLength: 64 }),
          function: Type.Enum(['count', 'sum', 'avg', 'min', 'max', 'distinct']),
          field: Type.Optional(Type.String({ maxLength: 256 })),
        },
        strict,
      ),
      { minItems: 1, maxItems: 32 },
    ),
  },
  strict,
);

export const RequiresShape = Type.Object(
  {
    action: Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'An action of the resource definition',
    }),
    record: Type.Optional(
      Type.Object(
        {
          schema: Type.String({ maxLength: 64 }),
          input: Type.String({ maxLength: 64, description: 'The input that holds its id' }),
        },
        { ...strict, description: 'The record on which it is needed' },
      ),
    ),
  },
  {
    ...strict,
    description:
      'An action that callers need: on the record that an input names, else on every record that is meant (there in the place of edit and delete, and beside read)',
  },
);

export type EndpointRequires = Static<typeof RequiresShape>;
export type EndpointInput = Static<typeof InputShape>;
export type EndpointAssignment = Static<typeof AssignmentShape>;
export type EndpointAggregate = Static<typeof AggregateShape>;

/** Where a value of a query or an assignment comes from. */
export interface ValueSource {
  readonly type: 'Input' | 'Custom' | 'Context' | 'Schema';
  readonly value: unknown;
}

/** A comparison as it is written and stored; `treeCondition` reads it. */
export interface QueryLeaf {
  readonly schemaField: string;
  /** A comparison code. */
  readonly operation: number;
  readonly comparisonField: ValueSource & {
    readonly like?: boolean;
    readonly caseSensitiveLike?: boolean;
    /** Words to look for in a text. */
    readonly search?: boolean;
  };
}

export type QueryTree =
  | QueryLeaf
  | { readonly AND: readonly QueryTree[] }
  | { readonly OR: readonly QueryTree[] };

export interface EndpointDefinition {
  readonly name: string;
  readonly operation: number;
  readonly selectedSchemaName: string;
  readonly endpointDescription: string;
  readonly inputs: readonly EndpointInput[];
  /** `null`: every record (reads and creates only). */
  readonly query: QueryTree | null;
  readonly assignments: readonly EndpointAssignment[];
  readonly authentication: boolean;
  readonly paginated: boolean;
  readonly sorted: boolean;
  /** What an `OR` means of which no branch is left, because optional inputs are absent: everything, or nothing. */
  readonly matchAllWhenEmpty: boolean;
  readonly aggregate: EndpointAggregate | null;
  /** An action that callers need beside what the schema asks. */
  readonly requires: EndpointRequires | null;
}

/** What is not said. */
export const emptyEndpoint: Omit<EndpointDefinition, 'query' | 'selectedSchemaName'> = {
  name: '',
  operation: 0,
  endpointDescription: '',
  inputs: [],
  assignments: [],
  authentication: false,
  paginated: false,
  sorted: false,
  matchAllWhenEmpty: false,
  aggregate: null,
  requires: null,
};

/** What is stored of every endpoint; what a query and its values mean is looked at when it is served. */
export const StoredShape = Type.Object({
  name: Type.String(),
  operation: Type.Integer({ minimum: 0, maximum: 5 }),
  selectedSchemaName: Type.String(),
  endpointDescription: Type.String(),
  inputs: Type.Array(InputShape),
  query: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()]),
  assignments: Type.Array(AssignmentShape),
  authentication: Type.Boolean(),
  paginated: Type.Boolean(),
  sorted: Type.Boolean(),
  matchAllWhenEmpty: Type.Boolean(),
  aggregate: Type.Union([AggregateShape, Type.Null()]),
  requires: Type.Union([RequiresShape, Type.Null()]),
});

export interface StoredEndpoint extends EndpointDefinition {
  /** Why what is stored cannot be used; then the definition stands in for it, and is not served. */
  readonly damage?: string;
  readonly _id: string;
  readonly __v: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export const isWrite = ({ operation }: EndpointDefinition): boolean =>
  operation === endpointOperation.put ||
  operation === endpointOperation.patch ||
  operation === endpointOperation.delete;

/* Which fields an endpoint may write, by what the schema permits (spec/database.md 5.7, 5.9). */

/** Top-level fields that admins have added to a schema. */
export const extensionFields = ({ extensions }: CompiledSchema): readonly string[] =>
  extensions
    .filter(({ ownerModule }) => ownerModule === adminOwner)
    .flatMap(({ fields }) => Object.keys(fields));

/** Top-level fields that an endpoint of this operation may assign to. */
export function changeableFields(schema: CompiledSchema, operation: number): ReadonlySet<string> {
  const { canCreate, canModify } = schema.modelOptions.conduit.permissions;
  const every = new Set(schema.tree.fields.keys());
  if (operation === endpointOperation.post) return canCreate ? every : new Set();
  if (canModify === 'Everything') return every;
  if (canModify === 'Nothing') return new Set();
  return new Set(extensionFields(schema));
}

/** Top-level fields that the designer of an endpoint can use. */
export function usableFields(schema: CompiledSchema, operation: number): readonly string[] {
  const { canDelete } = schema.modelOptions.conduit.permissions;
  const visible = [...schema.tree.fields]
    .filter(([, field]) => !field.hidden)
    .map(([name]) => name);
  const automatic = ['_id', ...(schema.modelOptions.timestamps ? ['createdAt', 'updatedAt'] : [])];
  if (operation === endpointOperation.get || operation === endpointOperation.aggregate)
    return [...automatic, ...visible];
  if (operation === endpointOperation.delete) return canDelete ? [...automatic, ...visible] : [];
  return [...changeableFields(schema, operation)];
}
