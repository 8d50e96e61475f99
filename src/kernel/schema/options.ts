/** Options of a schema (spec/database.md 5.2): their shape, their defaults, and how a change is merged in. */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { Problem } from '../errors.ts';
import type { CrudSwitch, ModelOptions, PlatformOptions, QuerySwitch } from './definition.ts';

const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const crudSwitch = Type.Optional(
  Type.Object(
    { enabled: flag('The routes exist'), authenticated: flag('Only signed-in users may call them') },
    { additionalProperties: false },
  ),
);

const queryOperators = ['$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin', '$exists', '$like', '$ilike', '$regex', '$search'];
const querySwitch = Type.Optional(
  Type.Object(
    {
      enabled: flag('Clients may filter, at POST /database/{Schema}/query'),
      fields: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 64, description: 'Paths that may be asked about' })),
      operators: Type.Optional(Type.Array(Type.Enum(queryOperators), { maxItems: 32 })),
      maxCost: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, description: 'Points that one query may cost' })),
    },
    { additionalProperties: false },
  ),
);

/** `conduitOptions` of the wire. */
export const platformOptionsShape = Type.Object(
  {
    cms: Type.Optional(
      Type.Object(
        {
          enabled: flag('The schema has client routes'),
          crudOperations: Type.Optional(
            Type.Object({ create: crudSwitch, read: crudSwitch, update: crudSwitch, delete: crudSwitch }, { additionalProperties: false }),
          ),
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
            Type.Enum(['assignOwner', 'leaveUnowned'], { description: 'What becomes of records that are there when it is switched on' }),
          ),
          ownerField: Type.Optional(Type.String({ maxLength: 64, description: 'For assignOwner: the field that holds the id of a user' })),
        },
        { additionalProperties: false },
      ),
    ),
    readPreference: Type.Optional(Type.String({ maxLength: 64, description: 'Accepted for compatibility; without effect on PostgreSQL' })),
    realtime: Type.Optional(Type.Object({ enabled: flag('Changes are offered to subscribers') }, { additionalProperties: false })),
    imported: flag('The schema was made by introspection'),
  },
  { additionalProperties: false },
);

const modelOptionsShape = Compile(
  Type.Object(
    {
      timestamps: Type.Optional(Type.Boolean()),
      conduit: Type.Optional(platformOptionsShape),
      indexes: Type.Optional(
        Type.Array(
          Type.Object(
            {
              fields: Type.Array(Type.String(), { minItems: 1, maxItems: 8 }),
              types: Type.Optional(Type.Array(Type.Unknown())),
              options: Type.Optional(Type.Object({ name: Type.Optional(Type.String()), unique: Type.Optional(Type.Boolean()) })),
            },
            { additionalProperties: false },
          ),
          { maxItems: 32 },
        ),
      ),
    },
    { additionalProperties: false },
  ),
);

/** Everything decided: no option is left open. */
export interface ResolvedOptions extends PlatformOptions {
  readonly cms: {
    readonly enabled: boolean;
    readonly query?: QuerySwitch;
    readonly crudOperations: { readonly [K in CrudOperation]: { readonly enabled: boolean; readonly authenticated: boolean } };
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

/** Faults of `modelOptions`, with dotted places. */
export function checkModelOptions(options: unknown, path = 'modelOptions'): readonly Problem[] {
  if (modelOptionsShape.Check(options)) return [];
  const faults = modelOptionsShape.Errors(options).filter(({ keyword }) => keyword !== 'boolean');
  return faults.map(({ instancePath, keyword, message }) => ({
    path: path + instancePath.replaceAll('/', '.'),
    rule: keyword,
    message,
  }));
}

/** Explicit value, else the one in force, else the default: on for what an admin makes, off for what a module brings. */
export function resolveOptions(given: PlatformOptions, current: PlatformOptions, exposed: boolean): ResolvedOptions {
  const operation = (name: CrudOperation) => {
    const sources: readonly (CrudSwitch | undefined)[] = [given.cms?.crudOperations?.[name], current.cms?.crudOperations?.[name]];
    return {
      enabled: sources[0]?.enabled ?? sources[1]?.enabled ?? exposed,
      authenticated: sources[0]?.authenticated ?? sources[1]?.authenticated ?? false,
    };
  };
  const query = given.cms?.query ?? current.cms?.query;
  const permission = { ...current.permissions, ...given.permissions };
  return {
    ...current,
    ...given,
    cms: {
      enabled: given.cms?.enabled ?? current.cms?.enabled ?? exposed,
      crudOperations: {
        create: operation('create'),
        read: operation('read'),
        update: operation('update'),
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
    authorization: { enabled: given.authorization?.enabled ?? current.authorization?.enabled ?? false },
  };
}

/** `modelOptions` as they are stored and shown. */
export const storedModelOptions = (conduit: ResolvedOptions, options: ModelOptions) => ({
  timestamps: options.timestamps ?? true,
  conduit,
  ...(options.indexes && { indexes: options.indexes }),
});
