/** What becomes of records that were deleted or changed: the trash and the history, as the store offers them. */
import type { Caller } from '../caller.ts';
import { errors } from '../errors.ts';
import { isTrusted } from './access.ts';
import type { OpenDesk } from './desk.ts';
import { type HistoryRequest, listVersions, pruneHistory, readVersion } from './history.ts';
import { restoreVersion } from './restore-version.ts';
import type { RecordHistory, RecordTrash } from './store.ts';
import { purgeExpired, purgeRecords, restoreRecord } from './trash.ts';
import type { OpenWrite } from './write-context.ts';

export const createTrash = (write: OpenWrite): RecordTrash => ({
  async restore(...[caller, name, id, options]) {
    return restoreRecord(await write(caller, name, 'delete', options), id);
  },
  async purge(caller, name, ids) {
    requireTrusted(caller);
    return purgeRecords(await write(caller, name, 'delete'), ids);
  },
  async purgeExpired(caller, name, signal) {
    requireTrusted(caller);
    const context = await write(caller, name, 'delete');
    const days = context.schema.softDelete?.retainDays;
    return days === undefined ? 0 : purgeExpired(context, days, signal);
  },
});

export function createHistory(deskOf: OpenDesk, write: OpenWrite): RecordHistory {
  const request = async (
    caller: Caller,
    name: string,
    { id, scope }: { id: string; scope?: string | undefined },
  ): Promise<HistoryRequest> => {
    const { dependencies, schema } = await deskOf(caller, name);
    return { dependencies, caller, schema: schema(name), id, scope };
  };
  return {
    async list(caller, name, id, options = {}) {
      return listVersions(await request(caller, name, { id, scope: options.scope }), options);
    },
    async get(...[caller, name, id, version, options = {}]) {
      return readVersion(await request(caller, name, { id, scope: options.scope }), version, options);
    },
    async restore(...[caller, name, id, version, options]) {
      return restoreVersion(await write(caller, name, 'update', options), id, version);
    },
    async prune(caller, name, signal) {
      requireTrusted(caller);
      const { dependencies, schema } = await deskOf(caller, name);
      return pruneHistory(dependencies, schema(name), signal);
    },
  };
}

function requireTrusted(caller: Caller): void {
  if (!isTrusted(caller)) throw errors.FORBIDDEN();
}
