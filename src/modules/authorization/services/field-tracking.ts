/**
 * Tables whose records say on what others hang: a project names its team, and its tasks are read by whoever reads the
 * project. These get triggers that note changes of such fields as those of stored tuples are noted, so that nodes may
 * keep what somebody reaches through them. Answers are the same without; each question then searches the way anew.
 */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { callerKey, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { followFields } from '../field-tracking-tables.ts';
import { fieldKey, type RecordField } from '../model/grammar.ts';
import { buildModel, type Model } from '../model/model.ts';
import type { Models } from './definitions/models.ts';
import { repeatVersion } from './definitions/queries.ts';
import { type StoredDefinition, validDefinitions } from './definitions/stored-definition.ts';
import { trackedTable } from './row-tracking.ts';

export interface FieldTracking {
  /** Gives triggers to the tables that lack them, by the definitions of now. Never fails, because nothing but speed rests on it. */
  follow(): Promise<void>;
}

interface Dependencies {
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly models: Pick<Models, 'change' | 'definitions'>;
  readonly log: Logger;
}

type Stored = ReadonlyMap<string, StoredDefinition>;

const actor = callerKey(system('field-tracking'));
/** Tables that one transaction locks. */
const TOGETHER = 50;

export function createFieldTracking({ schemas, models, log }: Dependencies): FieldTracking {
  const tableOf = (type: string): string | undefined => trackedTable(schemas.get(type));
  /** What is missing of the tables that can have it. */
  const missingOf = (stored: Stored): ReadonlyMap<string, readonly RecordField[]> =>
    new Map(
      [...fieldsToFollow(stored)].filter(
        ([type, fields]) =>
          tableOf(type) !== undefined && !isSame(stored.get(type)?.followed, fields),
      ),
    );

  /** Under the lock of definitions: no field is followed that one lets go at the same moment. */
  const begin = (types: readonly string[]): Promise<void> =>
    models.change(
      async (transaction, stored) => {
        // Rather slower lists than writers that wait for long.
        await transaction.query({ text: `set local lock_timeout = '3s'` });
        const missing = missingOf(stored);
        for (const type of types) await beginOne(transaction, type, missing.get(type));
      },
      async () => undefined,
    );

  async function beginOne(
    transaction: Transaction,
    type: string,
    fields: readonly RecordField[] | undefined,
  ): Promise<void> {
    const table = tableOf(type);
    if (table === undefined || fields === undefined) return;
    // Nodes read with the definitions what is followed: these count as changed.
    if (await followFields(transaction, { type, table }, fields))
      await repeatVersion(transaction, type, actor);
  }

  /** Where one of several tables is in use, the others need not wait. */
  async function beginEach(types: readonly string[]): Promise<void> {
    try {
      await begin(types);
    } catch (err) {
      const [type, ...others] = types;
      if (others.length > 0) for (const one of types) await beginEach([one]);
      else log.warn({ err, schema: type }, NOT_FOLLOWED);
    }
  }

  return {
    async follow() {
      try {
        const missing = [...missingOf(await models.definitions()).keys()];
        for (let i = 0; i < missing.length; i += TOGETHER)
          await beginEach(missing.slice(i, i + TOGETHER));
      } catch (err) {
        log.warn({ err }, NOT_FOLLOWED);
      }
    },
  };
}

const NOT_FOLLOWED = 'What these records say is not followed yet: lists that hang on it are slower';

/** By type, what its records say where others may hang on its records. */
function fieldsToFollow(stored: Stored): ReadonlyMap<string, readonly RecordField[]> {
  const model = buildModel(validDefinitions(stored.values()), 0);
  const leading = leadingTypes(model);
  const found = new Map<string, Map<string, RecordField>>();
  for (const { type, field } of model.recordRelations) {
    if (!leading.has(type)) continue;
    const fields = found.get(type) ?? new Map<string, RecordField>();
    found.set(type, fields.set(fieldKey(field), field));
  }
  return new Map([...found].map(([type, fields]) => [type, [...fields.values()]]));
}

/** Types on whose objects a name of another object hangs. */
function leadingTypes(model: Model): ReadonlySet<string> {
  const found = new Set<string>();
  for (const type of model.types()) {
    const { relations, actions } = model.get(type) ?? {};
    const names = [
      ...[...(relations?.keys() ?? [])].map((name) => ({ type, kind: 'relation', name }) as const),
      ...[...(actions?.keys() ?? [])].map((name) => ({ type, kind: 'action', name }) as const),
    ];
    for (const name of names)
      for (const { on, through } of model.dependencies(name))
        if (through !== undefined) found.add(on.type);
  }
  return found;
}

const isSame = (followed: readonly string[] = [], fields: readonly RecordField[]): boolean =>
  followed.length === fields.length && fields.every((field) => followed.includes(fieldKey(field)));
