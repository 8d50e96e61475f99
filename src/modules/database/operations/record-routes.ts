/** The client routes of every schema, made from what it declares. */

import { isOffered } from '../../../data/records/access/operation-access.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { OperationRegistry } from '../../../kernel/operations/registry.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { mapInSlices } from '../../../kernel/time-slices.ts';
import { bulkRecordOperations } from './bulk-records.ts';
import { clientQueryOperations } from './client-query.ts';
import { clientHistoryOperations } from './history.ts';
import { clientMoveOperations } from './move.ts';
import { recordOperations } from './records.ts';
import { clientTrashOperations } from './trash.ts';

export const recordsOwner = 'database/records';

export interface RecordRoutes {
  /** The same operation objects as before for schemas that did not change, so that what surfaces derived from them stays. */
  operations(schemas: readonly CompiledSchema[]): readonly Operation[];
  /** Makes them in slices, and the registry knows them then, so that publishing them takes no time. */
  prepare(registry: OperationRegistry, schemas: readonly CompiledSchema[]): Promise<void>;
  /** Says that a route is left out because somebody else has it. */
  skip(operation: Operation, name: string): void;
}

/** A schema of which no routes can be made has none; the others do not go with it. */
export function createRecordRoutes(
  records: RecordStore,
  schemas: SchemaRegistry,
  log: Pick<Logger, 'error'>,
): RecordRoutes {
  const made = new WeakMap<CompiledSchema, readonly Operation[]>();

  function operationsOf(schema: CompiledSchema): readonly Operation[] {
    let operations = made.get(schema);
    if (!operations) {
      operations = [
        ...recordOperations(records, schema),
        ...bulkRecordOperations(records, schema),
        ...clientQueryOperations(records, schemas, schema),
        ...clientTrashOperations(records, schema),
        ...clientMoveOperations(records, schema),
        ...clientHistoryOperations(records, schema),
      ]
        .filter(({ crud }) => isOffered(schema, crud))
        .map(({ operation }) => operation);
      made.set(schema, operations);
    }
    return operations;
  }

  function operationsOr(schema: CompiledSchema): readonly Operation[] {
    try {
      return operationsOf(schema);
    } catch (error) {
      log.error({ err: error, schema: schema.name }, 'The routes of a schema are left out');
      // Said once: nothing else comes of it until the schema is another.
      made.set(schema, []);
      return [];
    }
  }

  return {
    skip: ({ id }, name) =>
      log.error({ id, name }, 'A route of a schema is left out: somebody else has it'),
    operations: (all) => all.flatMap(operationsOr),
    async prepare(registry, all) {
      const operations = await mapInSlices(all, operationsOr);
      await registry.prepare(recordsOwner, operations.flat());
    },
  };
}
