/**
 * Tables whose records say on what others hang: a project names its team, and its tasks are read by whoever reads the
 * project. These get triggers that note changes of such fields as those of stored tuples are noted, so that nodes may
 * keep what somebody reaches through them. Answers are the same without; each question then searches the way anew.
 */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { callerKey, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { arrowsIn } from '../engine/tuple-loading.ts';
import { followFields } from '../field-tracking-tables.ts';
import { fieldKey } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
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
  readonly models: Pick<Models, 'change' | 'engine'>;
  readonly log: Logger;
}

const actor = callerKey(system('field-tracking'));
/** Tables that one transaction locks. */
const TOGETHER = 100;

export function createFieldTracking({ schemas, models, log }: Dependencies): FieldTracking {
  const tableOf = (type: string): string | undefined => trackedTable(schemas.get(type));

  /** Under the lock of definitions: no field is followed that one of them drops at the same time. */
  const begin = (types: readonly string[]): Promise<readonly string[]> =>
    models.change(
      async (transaction, stored) => {
        // Rather slower lists than writers that wait for long.
        await transaction.query({ text: `set local lock_timeout = '3s'` });
        const begun: string[] = [];
        for (const type of types)
          if (await beginOne(transaction, stored.get(type), tableOf(type))) begun.push(type);
        return begun;
      },
      async () => undefined,
    );

  /** Where one of several tables is in use, the others need not wait. */
  async function beginEach(types: readonly string[]): Promise<readonly string[]> {
    try {
      return await begin(types);
    } catch (err) {
      const [type, ...others] = types;
      if (others.length === 0) log.warn({ err, schema: type }, NOT_FOLLOWED);
      const begun: string[] = [];
      if (others.length > 0) for (const one of types) begun.push(...(await beginEach([one])));
      return begun;
    }
  }

  /** Nodes read with the definitions what is followed: one that counts as changed is enough for all of them. */
  const tell = (type: string): Promise<void> =>
    models.change(
      (transaction) => repeatVersion(transaction, type, actor),
      async () => undefined,
    );

  return {
    async follow() {
      try {
        const { model } = await models.engine();
        const missing = typesToFollow(model).filter((type) => tableOf(type) !== undefined);
        let first: string | undefined;
        for (let i = 0; i < missing.length; i += TOGETHER) {
          const begun = await beginEach(missing.slice(i, i + TOGETHER));
          first ??= begun[0];
        }
        if (first !== undefined) await tell(first);
      } catch (err) {
        log.warn({ err }, NOT_FOLLOWED);
      }
    },
  };
}

const NOT_FOLLOWED = 'What these records say is not followed yet: lists that hang on it are slower';

/** Whether the table has the triggers now and had others before. */
async function beginOne(
  transaction: Transaction,
  stored: StoredDefinition | undefined,
  table: string | undefined,
): Promise<boolean> {
  const [definition] = stored ? validDefinitions([stored]) : [];
  if (!definition || table === undefined) return false;
  const relations = [...definition.fields, ...definition.columns];
  if (relations.every(([relation]) => definition.followed.has(relation))) return false;
  const fields = new Map(relations.map(([, field]) => [fieldKey(field), field]));
  return followFields(transaction, { type: definition.name, table }, [...fields.values()]);
}

/** Types whose records say something that is not followed, where others may hang on their records. */
function typesToFollow(model: Model): readonly string[] {
  const missing = model.recordRelations.filter(
    ({ type, relation }) => !model.isFollowed(type, relation),
  );
  if (missing.length === 0) return [];
  const leading = leadingTypes(model);
  return [...new Set(missing.map(({ type }) => type))].filter((type) => leading.has(type));
}

/** Types whose objects lead to others, by an arrow or as a set. */
function leadingTypes(model: Model): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { relations, actions } of model.types().flatMap((type) => model.get(type) ?? [])) {
    const arrows = new Set(
      [...actions.values()].flatMap((one) => arrowsIn(one)).map(({ relation }) => relation),
    );
    for (const [name, subjects] of relations)
      for (const { type, relation } of subjects)
        if (relation !== '' || arrows.has(name)) found.add(type);
  }
  return found;
}
