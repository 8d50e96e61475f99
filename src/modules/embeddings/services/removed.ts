/** What is kept of texts goes with its records: also while a configuration is switched off, and with a whole schema. */
import { fieldTest, literal } from '../../../data/conditions/condition.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { newId } from '../../../kernel/ids.ts';
import {
  allConfigs,
  type ConfigRow,
  type GenerationRow,
  insertGeneration,
  renewConfig,
} from '../queries/configs.ts';
import { embeddedRecords, nextVersion, replacePassages } from '../queries/vectors.ts';
import { replaceWords } from '../queries/words.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { emptyRow } from './writing.ts';

const reader = system('embeddings.removed');
/** Records that are forgotten at once. */
const PAGE = 500;

/** Configurations whose schema was destroyed begin anew, before anything is queued for records that came after that. */
export async function startAgain(
  transaction: Transaction,
  events: readonly PublishedEvent[],
): Promise<void> {
  const emptied = new Set(
    events.flatMap(({ topic, schema, ids }) =>
      topic === 'database:delete:schema' && schema !== undefined && !ids ? [schema] : [],
    ),
  );
  if (emptied.size === 0) return;
  for (const config of await allConfigs(transaction))
    if (emptied.has(config.schemaName)) await startEmpty(transaction, config);
}

/**
 * Records that events say are gone are forgotten at once where nobody else looks at them: by configurations that are switched
 * off, and by generations whose provider is away for now (`isAway`). Called when they are queued: whoever writes vectors
 * locks what is queued first, then the generation.
 */
export async function forgetRemoved(
  transaction: Transaction,
  events: readonly PublishedEvent[],
  isAway: (generation: GenerationRow) => boolean,
): Promise<void> {
  const removed = removedIn(events);
  if (removed.size === 0) return;
  for (const { schemaName, enabled, current, next } of await allConfigs(transaction)) {
    const ids = removed.get(schemaName) ?? [];
    const generations = next ? [current, next] : [current];
    for (const one of generations)
      if (!enabled || isAway(one)) await forgetRecords(transaction, one, ids);
  }
}

/** Ids by schema. */
function removedIn(events: readonly PublishedEvent[]): ReadonlyMap<string, readonly string[]> {
  const removed = new Map<string, string[]>();
  for (const { schema, ids = [], operation } of events)
    if (schema !== undefined && operation === 'delete')
      removed.set(schema, [...(removed.get(schema) ?? []), ...ids]);
  return removed;
}

async function forgetRecords(
  transaction: Transaction,
  { id }: Pick<GenerationRow, 'id'>,
  ids: readonly string[],
): Promise<void> {
  for (let at = 0; at < ids.length; at += PAGE) {
    const gone = ids.slice(at, at + PAGE);
    const version = await nextVersion(transaction, { id });
    if (version === undefined) return;
    await replacePassages(
      transaction,
      { generationId: id, version },
      gone.map((one) => emptyRow(one, null)),
    );
    await replaceWords(transaction, id, { gone, rows: [] });
  }
}

/** All records of a schema are gone: what was made of them is purged in the background, as of any generation that nobody has. */
async function startEmpty(transaction: Transaction, { id, current, next }: ConfigRow) {
  const generationId = newId();
  await insertGeneration(transaction, generationId, id, next ?? current);
  await renewConfig(transaction, id, generationId);
}

interface RemovedPage {
  /** Records of it. */
  readonly known: number;
  /** Those that are gone. */
  readonly ids: readonly string[];
  readonly next: string | undefined;
}

/** Of the records that a generation knows, a page behind an id: those that are no longer there, and where the next one begins. */
export async function removedRecords(
  { database, records }: EmbeddingParts,
  { id, schemaName }: Pick<GenerationRow, 'id' | 'schemaName'>,
  after: string,
): Promise<RemovedPage> {
  const known = await embeddedRecords(database, id, { after, limit: PAGE });
  if (known.length === 0) return { known: 0, ids: [], next: undefined };
  const filter = fieldTest('_id', { kind: 'in', right: literal(known) }, 'text');
  const found = await records.matching(reader, schemaName, { filter, looksInto: [], limit: PAGE });
  const there = new Set(found);
  return {
    known: known.length,
    ids: known.filter((one) => !there.has(one)),
    next: known.length < PAGE ? undefined : known.at(-1),
  };
}
