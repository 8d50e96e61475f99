/** Writes tuples that fit, however many others write or delete them at the same moment. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { errors } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { formatTuple } from '../model/tuple.ts';
import type { StoredTuple, TimedTuple } from '../queries.ts';
import { type NewTuple, writeTuples } from '../tuple-writes.ts';
import { trackedTable } from './row-tracking.ts';

/** SQLSTATE. */
const undefinedTable = '42P01';

/** Others may write or delete the same tuple at the same moment: so often the statement is tried. */
const attempts = 5;

/** Makes what writes tuples that fit: by their text, as they are stored then. */
export function createTupleWriter({
  database,
  schemas,
}: {
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}) {
  /** Notes which of them are about rows. A table that has just gone has none. */
  async function writeKnown(
    tuples: readonly NewTuple[],
    actor: string,
  ): Promise<readonly StoredTuple[]> {
    const types = [...new Set(tuples.map(({ resource }) => resource.type))];
    const tables = new Map(
      types.flatMap((type) => {
        const table = trackedTable(schemas.get(type));
        return table === undefined ? [] : [[type, table] as const];
      }),
    );
    try {
      return await writeTuples(database, tuples, actor, tables);
    } catch (error) {
      if (codeOf(error) !== undefinedTable || tables.size === 0 || database.inTransaction())
        throw error;
      return writeTuples(database, tuples, actor);
    }
  }

  async function writeAll(
    caller: Caller,
    tuples: readonly TimedTuple[],
  ): Promise<ReadonlyMap<string, StoredTuple>> {
    const requested = new Map(tuples.map((tuple) => [formatTuple(tuple), tuple]));
    const stored = new Map<string, StoredTuple>();
    for (let attempt = 0; attempt < attempts && stored.size < requested.size; attempt += 1) {
      const left = [...requested]
        .filter(([text]) => !stored.has(text))
        .map(([, tuple]) => ({ ...tuple, id: newId() }));
      for (const row of await writeKnown(left, callerKey(caller)))
        stored.set(formatTuple(row), row);
    }
    if (stored.size < requested.size)
      throw errors.CONFLICT({
        message: 'These relations are being deleted at this moment; try again',
      });
    return stored;
  }

  return writeAll;
}
