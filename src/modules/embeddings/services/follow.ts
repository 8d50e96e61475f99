/** From events of records to what is to be done: each event is looked at once, in the transaction that queues its records. */
import { allConfigs } from '../queries/configs.ts';
import { enqueueChanged, lockPosition, movePosition } from '../queries/pending.ts';
import type { Backfills } from './backfills.ts';
import type { EmbeddingParts } from './embedding-parts.ts';

/** Events of one turn. */
const PAGE = 500;

/**
 * Looks at the events since the last time. Answers whether there are more. While another node looks, nothing is done. When
 * events are gone that nobody looked at, everything is compared anew.
 */
export async function followEvents(
  parts: EmbeddingParts & { readonly backfills: Backfills },
): Promise<boolean> {
  const { database, events } = parts;
  return database.transaction(async (transaction) => {
    const position = await lockPosition(transaction);
    if (position === undefined) return false;
    const page = await events.since(position, PAGE);
    if (!page) {
      await startOver(parts);
      await movePosition(transaction, await events.position());
      return false;
    }
    const last = page.events.at(-1);
    if (!last) return false;
    for (const [schema, ids] of changedRecords(page.events))
      await enqueueChanged(transaction, schema, [...ids]);
    await movePosition(transaction, last.sequence);
    return page.more;
  });
}

function changedRecords(
  events: readonly { readonly schema?: string; readonly ids?: readonly string[] }[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const changed = new Map<string, Set<string>>();
  for (const { schema, ids = [] } of events) {
    if (schema === undefined || ids.length === 0) continue;
    const known = changed.get(schema) ?? new Set();
    changed.set(schema, known);
    for (const id of ids) known.add(id);
  }
  return changed;
}

async function startOver({
  database,
  backfills,
  log,
}: EmbeddingParts & { readonly backfills: Backfills }): Promise<void> {
  const configs = await allConfigs(database);
  log.warn({}, 'Events are gone that embeddings have not seen: all records are compared anew');
  for (const config of configs)
    if (config.enabled) await backfills.replace(config, config.next ?? config.current);
}
