/** A change of one document: read, merge, check, compare-and-set, then apply on every node. */
import { requireAuthority } from '../authority.ts';
import { type Caller, callerKey } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { errors } from '../errors.ts';
import type { Bus } from '../events/bus.ts';
import { invalidInput } from '../operations/problems.ts';
import { moduleOfConfig } from './config-definition.ts';
import type { ChangedConfig, ChangeOptions } from './config-service.ts';
import type { LiveConfig } from './live-config.ts';
import { type ConfigRow, readRow, storeVersion } from './rows.ts';
import type { Tree } from './tree.ts';

/** Topic on which nodes hear that a document has a new version. */
export const CONFIG_TOPIC = 'config';
/** Rounds against other nodes that write the same document. Each lost round means that somebody else's change was stored. */
const ATTEMPTS = 50;

export interface Change extends ChangeOptions {
  readonly caller: Caller;
  readonly module: string;
  readonly target: LiveConfig;
  /** The patch, or with `replace` the whole of what is set. */
  patch(): Promise<Tree>;
}

export type Written = Pick<ChangedConfig, 'warnings' | 'applied' | 'differences'> & {
  readonly row: ConfigRow;
};

/** Answers once the new version runs on every node that is alive, or is known not to. */
export function createWriter(database: Database, bus: Bus): (change: Change) => Promise<Written> {
  const queues = new Map<string, Promise<unknown>>();

  /** Writers of one node wait for each other, so that only other nodes can make a round fail. */
  const inTurn = <T>(module: string, work: () => Promise<T>): Promise<T> => {
    const turn = (queues.get(module) ?? Promise.resolve()).then(work, work);
    queues.set(module, turn);
    return turn;
  };

  return async (change) => {
    const { module, target } = change;
    const { row, ...stored } = await inTurn(module, () => store(database, change));
    const [appliedHere, others] = await Promise.all([
      target.apply(row).then(
        () => true,
        () => false,
      ),
      bus.announce(CONFIG_TOPIC, { module, version: row.version }),
    ]);
    const applied = appliedHere
      ? others
      : { replicas: others.replicas - 1, failed: [...others.failed, bus.nodeId] };
    return { row, ...stored, applied };
  };
}

/** Read, merge, check, compare-and-set; again from the start when somebody else was faster and no version was asked for. */
async function store(database: Database, change: Change): Promise<Omit<Written, 'applied'>> {
  const { caller, module, target } = change;
  const patch = await change.patch();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const before = await readRow(database, module);
    if (change.expectedVersion !== undefined && change.expectedVersion !== before.version)
      throw staleVersion(before.version);
    const { set, warnings, differences } = decide(change, before, patch);
    const { document } = target;
    const said = await target.ask(
      document.complete(set),
      document.complete(document.open(before.config)),
      {
        force: change.force === true,
      },
    );
    change.onDecided?.(differences);
    const config = target.document.seal(set);
    const row = await storeVersion(database, {
      name: module,
      config,
      after: before.version,
      updatedBy: callerKey(caller),
    });
    if (row) return { row, warnings: [...warnings, ...said], differences };
    if (change.expectedVersion !== undefined) throw staleVersion();
  }
  throw errors.CONFLICT({
    message: 'This configuration is being changed by others all the time: try again',
    retryAfter: 1,
  });
}

export interface Decided extends Pick<ChangedConfig, 'warnings' | 'differences'> {
  /** What would be set, secrets in clear. */
  readonly set: Tree;
}

/** What a patch makes of what is stored. Throws 400 for a configuration that is not valid, 403 for guarded keys. */
export function decide(
  { caller, module, target: { document }, replace, strict }: Omit<Change, 'patch'>,
  before: ConfigRow,
  patch: Tree,
): Decided {
  const setBefore = document.open(before.config);
  const { set, unknownKeys } = document.merge(setBefore, patch, replace === true);
  if (strict && unknownKeys.length > 0) throw invalidInput(unknownKeys.map(unknownKey));
  const [wasComplete, after] = [document.complete(setBefore), document.complete(set)];
  const guarded = document.guardedChanges(wasComplete, after).map((key) => `${module}.${key}`);
  requireAuthority(caller, {
    kind: 'configKeys',
    module: moduleOfConfig(module, document.definition),
    guarded,
  });
  const problems = document.problems(after);
  if (problems.length > 0) throw invalidInput(problems);
  return { set, warnings: unknownKeys, differences: document.differences(wasComplete, after) };
}

const unknownKey = (path: string) => ({
  path,
  rule: 'unknown',
  message: 'is not a key of this configuration',
});

const staleVersion = (stored?: number) =>
  errors.PRECONDITION_FAILED({
    message: `The configuration was changed in the meantime${stored === undefined ? '' : ` (version ${stored} is stored)`}: read it again`,
  });
