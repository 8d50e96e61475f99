/** Indexes of schemas in the hands of an admin. */

import type { Static } from 'typebox';
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../data/schema/compile/index-definition.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { IndexDefinition } from '../../../data/schema/language/definition.ts';
import { shortName } from '../../../data/schema/language/names.ts';
import { indexShape } from '../../../data/schema/language/options.ts';
import { type ListedIndex, listIndexes } from '../../../data/schema/plan/index-change.ts';
import type { IndexChange } from '../../../data/schema/plan/schema-request.ts';
import {
  type IndexState,
  indexStates,
  retryIndexBuilds,
} from '../../../data/schema/registry/index-builds.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import type { SchemaAdmin } from './schema-admin.ts';
import type { PlanForAdmin } from './schema-views.ts';

export const given = Type.Omit(indexShape, ['ownerModule'], { additionalProperties: false });

export const IndexView = Type.Object({
  fields: Type.Array(Type.String()),
  types: Type.Array(Type.Enum(['Ascending', 'Descending', 'Text'])),
  options: Type.Object({ name: Type.String(), unique: Type.Boolean() }),
  engine: Type.Object({
    method: Type.Enum(['BTREE', 'HASH', 'GIN', 'BRIN']),
    where: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  }),
  state: Type.Enum(['building', 'ready', 'failed']),
  reason: Type.Optional(Type.String({ description: 'Why it failed' })),
  source: Type.Enum(['schema', 'field', 'relation', 'table'], {
    description:
      'What brings it: itself, an option of a field, that the field is a relation, or the imported table',
  }),
  ownerModule: Type.Optional(
    Type.String({ description: 'Who added it to a schema of somebody else' }),
  ),
});

export type IndexView = Static<typeof IndexView>;

export const Transferred = Type.Interface(
  [given],
  { schemaName: Type.String({ maxLength: 64 }) },
  { additionalProperties: false },
);

type TransferredIndex = Static<typeof Transferred>;

export interface IndexAdmin {
  list(id: string): Promise<readonly IndexView[]>;
  plan(caller: Caller, changes: readonly IndexChange[]): Promise<PlanForAdmin>;
  /** Adds and removes; failed ones that are asked for again are tried again. */
  change(caller: Caller, changes: readonly IndexChange[]): Promise<void>;
  exported(): TransferredIndex[];
  /** Answers how many were left out because they are of another engine. */
  import(caller: Caller, indexes: readonly TransferredIndex[]): Promise<number>;
}

interface Dependencies {
  readonly admin: SchemaAdmin;
  readonly schemas: SchemaRegistry;
  readonly database: Queryable;
  /** Starts the making of indexes that wait. */
  readonly build: () => void;
}

export function createIndexAdmin({ admin, schemas, database, build }: Dependencies): IndexAdmin {
  async function retry(changes: readonly IndexChange[]): Promise<void> {
    for (const { id, add } of changes) {
      if (add.length === 0) continue;
      const schema = admin.get(id);
      const requested = new Set(add.map(({ fields }) => fields.join()));
      const names = listIndexes(schema).filter(({ layout }) =>
        requested.has(layout.columns.join()),
      );
      if (
        await retryIndexBuilds(
          database,
          schema.name,
          names.map(({ physical }) => physical),
        )
      )
        build();
    }
  }

  const change = async (caller: Caller, changes: readonly IndexChange[]): Promise<void> => {
    for (const { id } of changes) admin.get(id);
    await schemas.apply(caller, { kind: 'indexes', changes });
    await retry(changes);
  };

  return {
    async list(id) {
      const schema = admin.get(id);
      if (schema.mapping) return foreignIndexes(schema);
      const states = await indexStates(database, schema.name);
      return listIndexes(schema).map((index) => indexView(index, states.get(index.physical)));
    },
    async plan(caller, changes) {
      for (const { id } of changes) admin.get(id);
      return admin.plan(caller, { kind: 'indexes', changes });
    },
    change,
    exported: () => schemas.all().flatMap(transferredOf),
    async import(caller, indexes) {
      const known = indexes.map(({ schemaName, ...definition }, position) => {
        const schema = schemas.get(schemaName);
        if (!schema) throw missingSchema(schemaName, position);
        return { schema, definition: definition as IndexDefinition };
      });
      const ours = known.filter(
        ({ schema, definition }) => resolveIndex(definition, schema.tree, '').skipped === undefined,
      );
      const bySchema = Map.groupBy(ours, ({ schema }) => schema._id);
      const changes = [...bySchema].map(([id, list]) => ({
        id,
        add: list.map(({ definition }) => definition),
        remove: [],
      }));
      if (changes.length > 0) await change(caller, changes);
      return known.length - ours.length;
    },
  };
}

function missingSchema(name: string, position: number): Error {
  const message = `there is no schema "${shortName(name)}"`;
  return schemaErrors.SCHEMA_NOT_FOUND({
    message,
    errors: [{ path: `indexes.${position}.schemaName`, rule: 'exists', message }],
  });
}

/** Those that admins have added, in the schemas of admins and of modules. */
function transferredOf(schema: CompiledSchema): TransferredIndex[] {
  const definitions = (schema.modelOptions.indexes ?? []).filter(
    ({ ownerModule }) => schema.ownerModule === adminOwner || ownerModule === adminOwner,
  );
  return definitions.map(
    ({ ownerModule: _, ...definition }) =>
      ({ ...definition, schemaName: schema.name }) as TransferredIndex,
  );
}

/** Those of a table that belongs to somebody else, as introspection found them. */
const foreignIndexes = ({ layout }: CompiledSchema): readonly IndexView[] =>
  Object.entries(layout.indexes).map(([name, index]) => {
    const view = indexView(
      { name, physical: name, layout: index, source: 'schema' },
      { state: 'ready', reason: null },
    );
    return { ...view, source: 'table' };
  });

const methods = { btree: 'BTREE', hash: 'HASH', gin: 'GIN', brin: 'BRIN' } as const;
const lost: IndexState = {
  state: 'failed',
  reason:
    'The database has no such index: somebody removed it by hand. Remove it here and add it again',
};

function indexView(
  { name, layout, source, definition }: ListedIndex,
  { state, reason }: IndexState = lost,
): IndexView {
  const { columns, descending = [], text, unique, method } = layout;
  const where = definition?.engine?.where;
  return {
    fields: [...columns],
    types: columns.map((column) =>
      text ? 'Text' : descending.includes(column) ? 'Descending' : 'Ascending',
    ),
    options: { name, unique },
    engine: { method: methods[method], ...(where && { where: { ...where } }) },
    state,
    ...(reason !== null && { reason }),
    source,
    ...(definition?.ownerModule !== undefined && { ownerModule: definition.ownerModule }),
  };
}
