/** Options of a schema (spec/database.md 5.2): their shape, their defaults, and how a change is merged in. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { Problem } from '../../../kernel/errors.ts';
import { unknownKeys } from '../../../kernel/operations/declared-keys.ts';
import { jsonSchema } from '../../../kernel/operations/json-schema.ts';
import type {
  CrudSwitch,
  ModelOptions,
  PlatformOptions,
  QuerySwitch,
  UpdateSwitch,
} from './definition.ts';
import { recordOptionShapes } from './record-options.ts';

const MAX_INDEXES = 32;

export const MAX_INDEX_FIELDS = 8;

const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const crudFlags = {
  enabled: flag('The routes exist'),
  authenticated: flag('Only signed-in users may call them'),
};
const crudSwitch = Type.Optional(Type.Object(crudFlags, { additionalProperties: false }));
const updateSwitch = Type.Optional(
  Type.Object(
    {
      ...crudFlags,
      operators: flag('PATCH takes $inc, $push, $pull and $unset'),
      upsert: flag(
        'PUT ?upsert=true creates a record that is not there, under the id that the client chose',
      ),
    },
    { additionalProperties: false },
  ),
);

const queryOperators = [
  '$eq',
  '$ne',
  '$gt',
  '$gte',
  '$lt',
  '$lte',
  '$in',
  '$nin',
  '$exists',
  '$like',
  '$ilike',
  '$regex',
  '$search',
];
const querySwitch = Type.Optional(
  Type.Object(
    {
      enabled: flag('Clients may filter, at POST /database/{Schema}/query'),
      fields: Type.Optional(
        Type.Array(Type.String({ maxLength: 256 }), {
          maxItems: 64,
          description: 'Paths that may be asked about',
        }),
      ),
      operators: Type.Optional(Type.Array(Type.Enum(queryOperators), { maxItems: 32 })),
      maxCost: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 1_000, description: 'Points that one query may cost' }),
      ),
    },
    { additionalProperties: false },
  ),
);

/** Which operations the client routes of a schema have. */
export const crudOperationsShape = Type.Object(
  { create: crudSwitch, read: crudSwitch, update: updateSwitch, delete: crudSwitch },
  { additionalProperties: false, description: 'Which operations the client routes have' },
);

/** `conduitOptions` of the wire. */
export const platformOptionsShape = Type.Object(
  {
    cms: Type.Optional(
      Type.Object(
        {
          enabled: flag('The schema has client routes'),
          crudOperations: Type.Optional(crudOperationsShape),
          query: querySwitch,
        },
        { additionalProperties: false },
      ),
    ),
    permissions: Type.Optional(
      Type.Object(
        {
          extendable: flag('Other modules may add fields'),
          canCreate: flag('Other modules may create records'),
          canModify: Type.Optional(Type.Enum(['Everything', 'Nothing', 'ExtensionOnly'])),
          canDelete: flag('Other modules may delete records'),
        },
        { additionalProperties: false },
      ),
    ),
    authorization: Type.Optional(
      Type.Object(
        {
          enabled: flag('Rows are visible by permission only'),
          mode: Type.Optional(
            Type.Enum(['assignOwner', 'leaveUnowned'], {
              description: 'What becomes of records that are there when it is switched on',
            }),
          ),
          ownerField: Type.Optional(
            Type.String({
              maxLength: 64,
              description: 'For assignOwner: the field that holds the id of a user',
            }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
    readPreference: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'Accepted for compatibility; without effect on PostgreSQL',
      }),
    ),
    realtime: Type.Optional(
      Type.Object(
        { enabled: flag('Changes are offered to subscribers') },
        { additionalProperties: false },
      ),
    ),
    ...recordOptionShapes,
    unknownFields: Type.Optional(
      Type.Enum(['refuse', 'report', 'warn'], {
        description:
          'What becomes of fields and parameters that the client routes do not know: refuse answers 400, report leaves them out and names them in a header, warn also under warnings of the answer. Where it is left out, core.input.unknown decides',
      }),
    ),
    triggerMessages: flag(
      'Of an imported table: callers are told what its triggers and functions say when they refuse a record, and what PostgreSQL says when it cannot read the table',
    ),
    imported: flag('The schema was made by introspection'),
  },
  { additionalProperties: false },
);

const direction = Type.Union([Type.String({ maxLength: 32 }), Type.Number()]);

/** An index on the wire; what it means is checked against the fields (index-definition.ts). */
export const indexShape = Type.Object(
  {
    fields: Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 1,
      maxItems: MAX_INDEX_FIELDS,
      description: 'Top-level fields, in order',
    }),
    types: Type.Optional(
      Type.Union([direction, Type.Array(direction, { maxItems: MAX_INDEX_FIELDS })], {
        description: 'One per field: Ascending, Descending or Text; or a method of PostgreSQL',
      }),
    ),
    options: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'name, unique' }),
    ),
    engine: Type.Optional(
      Type.Object(
        {
          method: Type.Optional(Type.Enum(['BTREE', 'HASH', 'GIN', 'BRIN'])),
          where: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), {
              description:
                'Only records that fit are in it: fields with a value, null or {"$exists": true}',
            }),
          ),
        },
        { additionalProperties: false, description: 'What only PostgreSQL has' },
      ),
    ),
    ownerModule: Type.Optional(Type.String({ maxLength: 64 })),
  },
  { additionalProperties: false },
);

const modelOptionsShape = Type.Object(
  {
    timestamps: Type.Optional(Type.Boolean()),
    conduit: Type.Optional(platformOptionsShape),
    indexes: Type.Optional(Type.Array(indexShape, { maxItems: MAX_INDEXES })),
  },
  { additionalProperties: false },
);
const modelOptions = Compile(modelOptionsShape);

interface ResolvedSwitch {
  readonly enabled: boolean;
  readonly authenticated: boolean;
}

/** Everything decided: no option is left open. */
export interface ResolvedOptions extends PlatformOptions {
  readonly cms: {
    readonly enabled: boolean;
    readonly query?: QuerySwitch;
    readonly crudOperations: {
      readonly [K in Exclude<CrudOperation, 'update'>]: ResolvedSwitch;
    } & {
      readonly update: ResolvedSwitch & Pick<UpdateSwitch, 'operators' | 'upsert'>;
    };
  };
  readonly permissions: {
    readonly extendable: boolean;
    readonly canCreate: boolean;
    readonly canModify: 'Everything' | 'Nothing' | 'ExtensionOnly';
    readonly canDelete: boolean;
  };
  readonly authorization: { readonly enabled: boolean };
}

export type CrudOperation = 'create' | 'read' | 'update' | 'delete';
export const crudOperations: readonly CrudOperation[] = ['create', 'read', 'update', 'delete'];

/** Problems of `modelOptions`, with dotted places. */
export function checkModelOptions(options: unknown, path = 'modelOptions'): readonly Problem[] {
  if (modelOptions.Check(options)) return [];
  // The validator names the object that has a key too many (and what else that could have been); its author looks for the key.
  const unknown = unknownKeys(jsonSchema(modelOptionsShape), options, path);
  const others = modelOptions
    .Errors(options)
    .filter(({ keyword }) => keyword !== 'boolean' && keyword !== 'additionalProperties')
    .map(({ instancePath, keyword, message }) => ({
      path: path + instancePath.replaceAll('/', '.'),
      rule: keyword,
      message,
    }))
    .filter((problem) => !unknown.some((key) => key.path.startsWith(`${problem.path}.`)));
  return [...unknown, ...others];
}

/** Explicit value, else the one in force, else the default: on for what an admin makes, off for what a module brings. */
export function resolveOptions(
  given: PlatformOptions,
  current: PlatformOptions,
  exposed: boolean,
): ResolvedOptions {
  const operation = (name: CrudOperation) => {
    const sources: readonly (CrudSwitch | undefined)[] = [
      given.cms?.crudOperations?.[name],
      current.cms?.crudOperations?.[name],
    ];
    return {
      enabled: sources[0]?.enabled ?? sources[1]?.enabled ?? exposed,
      authenticated: sources[0]?.authenticated ?? sources[1]?.authenticated ?? false,
    };
  };
  const query = given.cms?.query ?? current.cms?.query;
  const permission = { ...current.permissions, ...given.permissions };
  const { readPreference, ...merged } = { ...current, ...given };
  return {
    ...merged,
    // Empty text takes it away.
    ...(readPreference && { readPreference }),
    cms: {
      enabled: given.cms?.enabled ?? current.cms?.enabled ?? exposed,
      crudOperations: {
        create: operation('create'),
        read: operation('read'),
        update: {
          ...operation('update'),
          ...updateExtras(given.cms?.crudOperations?.update, current.cms?.crudOperations?.update),
        },
        delete: operation('delete'),
      },
      ...(query && { query }),
    },
    permissions: {
      extendable: permission.extendable ?? true,
      canCreate: permission.canCreate ?? exposed,
      canModify: permission.canModify ?? (exposed ? 'Everything' : 'ExtensionOnly'),
      canDelete: permission.canDelete ?? exposed,
    },
    authorization: {
      enabled: given.authorization?.enabled ?? current.authorization?.enabled ?? false,
    },
  };
}

/** Switches that are stored only when somebody has set them. */
function updateExtras(
  given: UpdateSwitch = {},
  current: UpdateSwitch = {},
): Pick<UpdateSwitch, 'operators' | 'upsert'> {
  const { operators = current.operators, upsert = current.upsert } = given;
  return { ...(operators !== undefined && { operators }), ...(upsert !== undefined && { upsert }) };
}

/** `modelOptions` as they are stored and shown. */
export const storedModelOptions = (conduit: ResolvedOptions, options: ModelOptions) => ({
  timestamps: options.timestamps ?? true,
  conduit,
  ...(options.indexes && { indexes: options.indexes }),
});
