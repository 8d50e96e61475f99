/**
 * The configuration that one module runs with on this node. New versions are
 * applied one after the other; a listener that throws keeps the old one.
 */
import type { Logger } from '../telemetry/logger.ts';
import type { ConfigHandle } from './definition.ts';
import type { ConfigDocument } from './document.ts';
import type { ConfigRow } from './rows.ts';
import type { Tree } from './tree.ts';

type Listener = (next: Tree, previous: Tree) => void | Promise<void>;

export interface LiveConfig {
  readonly document: ConfigDocument;
  readonly handle: ConfigHandle<Tree>;
  /** Takes in a stored version, unless it or a newer one runs already. Throws when a listener refuses it. */
  apply(row: ConfigRow): Promise<void>;
  /** The stored version that this node could not apply. */
  refused(): number | undefined;
}

export function createLiveConfig(module: string, document: ConfigDocument, first: ConfigRow, log: Logger): LiveConfig {
  const listeners = new Set<Listener>();
  let version = first.version;
  let current = usable(module, document, first, log);
  let refused: number | undefined;
  let queue: Promise<void> = Promise.resolve();

  const take = async (row: ConfigRow): Promise<void> => {
    if (row.version <= version) return;
    const [before, versionBefore] = [current, version];
    const told: Listener[] = [];
    try {
      current = document.complete(document.open(row.config));
      version = row.version;
      for (const listener of listeners) {
        await listener(current, before);
        told.unshift(listener);
      }
      refused = undefined;
    } catch (error) {
      const failed = current;
      [current, version, refused] = [before, versionBefore, row.version];
      log.error({ module, version: row.version, err: error }, 'a configuration could not be applied; the one before stays in force');
      await tellBack(told, before, failed);
      throw error;
    }
  };

  const tellBack = async (told: readonly Listener[], kept: Tree, failed: Tree): Promise<void> => {
    for (const listener of told) {
      try {
        await listener(kept, failed);
      } catch (error) {
        log.error({ module, err: error }, 'a part could not return to the configuration before');
      }
    }
  };

  return {
    document,
    handle: {
      current: () => current,
      version: () => version,
      onChange(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    apply(row) {
      const applied = queue.then(() => take(row));
      queue = applied.catch(() => undefined);
      return applied;
    },
    refused: () => refused,
  };
}

/**
 * What to start with. A stored value that the definition no longer takes (after an upgrade) must not
 * keep the platform from starting: it is left out, loudly, and its default holds.
 */
function usable(module: string, document: ConfigDocument, row: ConfigRow, log: Logger): Tree {
  const set = document.open(row.config);
  const complete = document.complete(set);
  const problems = document.problems(complete);
  if (problems.length === 0) return complete;
  const keys = [...new Set(problems.map(({ path }) => path.split('.', 1)[0] ?? ''))];
  log.warn({ module, keys, problems }, 'stored configuration is not valid any more; the defaults of these keys are used');
  const kept = document.complete(Object.fromEntries(Object.entries(set).filter(([key]) => !keys.includes(key))));
  return document.problems(kept).length === 0 ? kept : document.complete({});
}
