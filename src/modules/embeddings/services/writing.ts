/** What was made of records as it is written down, as long as they are still ours. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { Passage } from '../passages.ts';
import type { GenerationRow } from '../queries/configs.ts';
import {
  finishClaimed,
  noteWords,
  postponeClaimed,
  releaseClaimed,
  stillClaimed,
} from '../queries/pending.ts';
import {
  isThere,
  knownHashes,
  lockGeneration,
  nextVersion,
  outdateHashes,
  type PassageRow,
  replacePassages,
} from '../queries/vectors.ts';
import { replaceWords, type WordsRow } from '../queries/words.ts';
import type { EmbeddingParts } from './embedding-parts.ts';

/** For a record without text, or that is gone. */
export const emptyRow = (recordId: string, hash: Buffer | null): PassageRow => ({
  recordId,
  ordinal: 0,
  starts: 0,
  ends: 0,
  hash,
  vector: null,
});

export const passageRow = (
  { id, hash, ordinal }: { readonly id: string; readonly hash: Buffer; readonly ordinal: number },
  { starts, ends }: Passage,
  vector: Float32Array | undefined,
): PassageRow => ({
  recordId: id,
  ordinal,
  starts,
  ends,
  hash,
  vector: vector ? Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength) : null,
});

export interface Written {
  readonly claim: string;
  readonly ids: readonly string[];
  readonly gone: readonly string[];
  readonly passages: readonly PassageRow[];
  readonly words: readonly WordsRow[];
}

/** Words need no model: they are found while vectors wait for one. `release`: nobody works on the vectors now. */
export async function writeWords(
  { database }: EmbeddingParts,
  generation: GenerationRow,
  { claim, ids, words }: Pick<Written, 'claim' | 'ids' | 'words'>,
  release = false,
): Promise<void> {
  const generationId = generation.id;
  const part = { claim, generationId, ids };
  await database.transaction(async (transaction) => {
    const ours = await stillClaimed(transaction, part);
    if (await lockGeneration(transaction, generation)) {
      const rows = words.filter(({ recordId }) => ours.has(recordId));
      await replaceWords(transaction, generationId, { gone: [], rows });
      await outdateHashes(transaction, generationId, [...ours]);
      await noteWords(transaction, part);
    }
    if (release) await releaseClaimed(transaction, part);
  });
}

/** Its fields got other names while their texts were read: under the old ones there was nothing. */
const readAgain = {
  error: 'Its fields were renamed',
  seconds: 1,
  permanent: false,
  tried: false,
  state: 'waiting',
} as const;

/** Only what is still ours is written: another node may have had newer texts, if we were too slow. */
export async function write(
  { database }: EmbeddingParts,
  generation: GenerationRow,
  { claim, ids, gone, passages, words }: Written,
): Promise<void> {
  const part = { claim, generationId: generation.id, ids };
  await database.transaction(async (transaction) => {
    const ours = await stillClaimed(transaction, part);
    const removed = gone.filter((id) => ours.has(id));
    const rows = [
      ...passages.filter(({ recordId }) => ours.has(recordId)),
      ...removed.map((id) => emptyRow(id, null)),
    ];
    if (rows.length > 0) {
      const version = await nextVersion(transaction, generation);
      if (version === undefined && (await isThere(transaction, generation.id))) {
        await postponeClaimed(transaction, { ...part, ...readAgain });
        return;
      }
      // The generation is gone: nobody wants its vectors.
      if (version !== undefined) {
        const kept = words.filter(({ recordId }) => ours.has(recordId));
        await replacePassages(transaction, { generationId: generation.id, version }, rows);
        await replaceWords(transaction, generation.id, { gone: removed, rows: kept });
      }
    }
    await finishClaimed(transaction, part);
  });
}

/** A text that is never taken has no vectors: those of the text before would find its record by what it says no more. */
export async function dropOutdated(
  transaction: Queryable,
  generation: GenerationRow,
  { claim, ids }: Pick<Written, 'claim' | 'ids'>,
): Promise<void> {
  const generationId = generation.id;
  const ours = await stillClaimed(transaction, { claim, generationId, ids });
  const known = await knownHashes(transaction, generationId, [...ours]);
  const version = known.size > 0 ? await nextVersion(transaction, generation) : undefined;
  if (version === undefined) return;
  const rows = [...known.keys()].map((id) => emptyRow(id, null));
  await replacePassages(transaction, { generationId, version }, rows);
}
