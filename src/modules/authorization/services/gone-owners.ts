/** Records whose owner is gone say so after a while: nobody stands behind what is written there until then. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database } from '../../../kernel/database/database.ts';
import type { Events, PublishedEvent } from '../../../kernel/events/events.ts';
import { isId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition, type Jobs } from '../../../kernel/jobs/jobs.ts';
import { recordRelationsNaming } from '../engine/tuple-source.ts';
import type { Models } from './definitions/models.ts';
import { clearOwned, isOwner } from './owners-in-records.ts';

interface Dependencies {
  readonly database: Database;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly models: Pick<Models, 'engine'>;
}

export interface GoneOwners {
  readonly job: JobDefinition;
  /** Listens to deletions of records that can own others, until what it answers is called. */
  listen(): () => void;
}

const jobName = 'authorization.forget-owners';
/** What may end a record; of one that went into the trash the end comes later. */
const ends = ['database:delete:', 'database:purge:'];

/** Ends of one event that are looked at one by one. */
const MAX_ASKED = 20;

export function createGoneOwners({
  database,
  events,
  jobs,
  schemas,
  models,
}: Dependencies): GoneOwners {
  const ownersAmong = async (type: string, ids: readonly string[]): Promise<string[]> => {
    const { model } = await models.engine();
    const owners: string[] = [];
    for (const id of ids)
      if (await isOwner(database, model, { type, id, relation: '' })) owners.push(id);
    return owners;
  };

  return {
    job: defineJob({
      name: jobName,
      data: Type.Object({ type: Type.String(), ids: Type.Array(Type.String()) }),
      async handler({ type, ids }, { signal }) {
        for (const id of ids) {
          if (await isThere(database, schemas.get(type), id)) continue;
          const { model } = await models.engine();
          const owner = { type, id, relation: '' };
          while (!signal.aborted && (await clearOwned(database, model, owner, `system:${jobName}`)))
            events.wake();
        }
      },
    }),
    listen() {
      const ended = async ({ schema: type, ids = [] }: PublishedEvent): Promise<void> => {
        if (type === undefined || ids.length === 0) return;
        const { model } = await models.engine();
        const columns = recordRelationsNaming(model, type);
        if (columns.every(({ field }) => field.typeColumn === undefined)) return;
        // Most own nothing: nothing about them is written down then, not even as a job that is done.
        const owners = ids.length > MAX_ASKED ? ids : await ownersAmong(type, ids);
        if (owners.length === 0) return;
        // Every node hears of it; one job does it.
        const data = { type, ids: owners };
        await jobs.enqueue(jobName, data, { singletonKey: `${type} ${owners[0]}` });
      };
      const all = ends.map((topic) => events.subscribe(`${topic}*`, ended));
      return () => {
        for (const unsubscribe of all) unsubscribe();
      };
    },
  };
}

async function isThere(
  database: Database,
  schema: CompiledSchema | undefined,
  id: string,
): Promise<boolean> {
  if (!schema || schema.mapping || !isId(id)) return false;
  const text = `select 1 from ${schema.table} where "_id" = $1`;
  return (await database.query({ text, values: [id] })).count > 0;
}
