/** Makes vectors of records that wait for them: claim, read, embed, write. */
import { randomUUID } from 'node:crypto';
import { isTooLargeTogether } from '../../../data/records/answer-bytes.ts';
import { system } from '../../../kernel/caller.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { builtInProvider, ModelError } from '../model.ts';
import { passagesOf } from '../passages.ts';
import type { GenerationRow } from '../queries/configs.ts';
import {
  type ClaimedRow,
  type ClaimFor,
  claimPending,
  postponeClaimed,
  renewClaim,
} from '../queries/pending.ts';
import { knownHashes, type PassageRow } from '../queries/vectors.ts';
import type { EmbeddingParts } from './embedding-parts.ts';
import { type RecordTexts, readTexts } from './record-texts.ts';
import { wordsOf } from './words.ts';
import { dropOutdated, emptyRow, passageRow, write, writeWords } from './writing.ts';

/** Records of one batch. */
const BATCH = 32;
/** Seconds after which a claim that nobody renews counts as lost, and milliseconds after which it is renewed. */
const CLAIM_SECONDS = 15;
const RENEW_MS = 4_000;
/** Seconds of the first pause after a failure; each is twice as long as the one before. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 300;

const reader = system('embeddings.generation');

/** Works on one batch; `words`: on what needs no model alone, while that is away. Answers how many records it had. */
export async function generateBatch(
  parts: EmbeddingParts,
  generations: readonly GenerationRow[],
  purpose: ClaimFor,
): Promise<number> {
  const claim = randomUUID();
  const claimed = await claimPending(parts.database, {
    claim,
    purpose,
    generations: generations.map(({ id }) => id),
    limit: BATCH,
    seconds: CLAIM_SECONDS,
  });
  if (claimed.length === 0) return 0;
  // Of a node that was killed the records are free soon, however long a model may take.
  const renewal = setInterval(() => {
    // What cannot be renewed is lost, and done by whoever claims it.
    const renewed = { claim, seconds: CLAIM_SECONDS };
    renewClaim(parts.database, claimed, renewed).catch(() => undefined);
  }, RENEW_MS);
  try {
    for (const generation of generations) {
      const rows = claimed.filter(({ generationId }) => generationId === generation.id);
      if (rows.length > 0) await workOn(parts, generation, { claim, rows, purpose });
    }
  } finally {
    clearInterval(renewal);
  }
  return claimed.length;
}

interface Claimed {
  readonly claim: string;
  readonly purpose: ClaimFor;
  readonly rows: readonly ClaimedRow[];
}

/** What a provider does not take, PostgreSQL cannot hold or read together, or the store of files has lost. */
function isOfOneRecord(error: unknown): boolean {
  if (error instanceof ModelError) return error.failure === 'refused';
  if (isTooLargeTogether(error)) return true;
  if (error instanceof PenstockError) return error.code === 'PROVIDER_ERROR';
  return /^(?:22|54)/.test(codeOf(error) ?? '');
}

/** A text that one of them is not taken with must not hold up the others: then each is tried by itself. */
async function workOn(
  parts: EmbeddingParts,
  generation: GenerationRow,
  claimed: Claimed,
): Promise<void> {
  try {
    await embedRecords(parts, generation, claimed);
  } catch (error) {
    if (isOfOneRecord(error) && claimed.rows.length > 1) {
      for (const row of claimed.rows) await workOn(parts, generation, { ...claimed, rows: [row] });
    } else await postpone(parts, generation, claimed, error);
  }
}

async function postpone(
  { database, events, config, measures, log }: EmbeddingParts,
  generation: GenerationRow,
  { claim, rows }: Claimed,
  error: unknown,
): Promise<void> {
  const known = error instanceof ModelError ? error : undefined;
  const permanent = known?.failure === 'refused';
  // Nothing was tried: they wait until they may be sent.
  const isWaiting = known !== undefined && unsent.has(known.failure);
  const attempts = Math.max(...rows.map((row) => row.attempts)) + 1;
  const isLast = permanent || (!isWaiting && attempts >= config().queue.attempts);
  const pause = known?.retryAfter ?? Math.min(FIRST_PAUSE * 2 ** (attempts - 1), LONGEST_PAUSE);
  const reason = known
    ? `${known.failure}: ${known.message}`
    : 'It failed on our side: see the log';
  const details = { generation: generation.id, records: rows.length, failure: known?.failure };
  if (!known) log.error({ err: error, ...details }, 'Records could not be embedded');
  else log.warn({ ...details, reason: known.message }, 'The provider of embeddings failed');
  const ids = rows.map(({ recordId }) => recordId);
  const ours = await database.transaction(async (transaction) => {
    if (permanent) await dropOutdated(transaction, generation, { claim, ids });
    const postponed = await postponeClaimed(transaction, {
      ...{ claim, generationId: generation.id, ids, permanent },
      error: reason,
      seconds: isLast ? 0 : pause,
      tried: !isWaiting,
      state: isLast ? 'failed' : 'waiting',
    });
    const { schemaName, configId } = generation;
    const topic = 'embeddings:document:failed';
    const payload = { schemaName, configId, reason };
    if (isLast && postponed.length > 0)
      await events.emit(transaction, reader, { topic, ids: postponed, payload });
    return postponed;
  });
  (isLast ? measures.failed : measures.retried).inc({}, ours.length);
}

async function embedRecords(
  parts: EmbeddingParts,
  generation: GenerationRow,
  { claim, rows, purpose }: Claimed,
): Promise<void> {
  const ids = rows.map(({ recordId }) => recordId);
  const texts = await readTexts(parts, reader, generation, ids);
  const known = await knownHashes(parts.database, generation.id, ids);
  const changed = texts.filter(({ id, hash }) => !known.get(id)?.equals(hash));
  const present = new Set(texts.map(({ id }) => id));
  const gone = ids.filter((id) => !present.has(id));
  const full = changed.filter(({ text }) => text !== '');
  const empty = changed.filter(({ text }) => text === '');
  // What needs no model does not wait for one: of a deleted record nothing is kept because a provider is away.
  const isSplit = full.length > 0 && parts.models.of(generation) !== undefined;
  const rest = isSplit ? full.map(({ id }) => id) : ids;
  const now = ids.filter((id) => !rest.includes(id));
  if (now.length > 0) await writeTexts(parts, generation, { claim, ids: now, gone, texts: empty });
  const words = full.map((record) => wordsOf(generation, record));
  if (purpose === 'words' && isSplit)
    return writeWords(parts, generation, { claim, ids: rest, words }, true);
  await writeTexts(parts, generation, {
    ...{ claim, ids: rest, gone: isSplit ? [] : gone, texts: isSplit ? full : changed },
  });
  parts.measures.skipped.inc({}, texts.length - full.length);
}

interface ReadRecords {
  readonly claim: string;
  readonly ids: readonly string[];
  readonly gone: readonly string[];
  /** What is to be written of those whose texts are others now. */
  readonly texts: readonly RecordTexts[];
}

async function writeTexts(
  parts: EmbeddingParts,
  generation: GenerationRow,
  { texts, ...written }: ReadRecords,
): Promise<void> {
  const words = texts.map((record) => wordsOf(generation, record));
  const passages = await embedAll(parts, generation, texts).catch(async (error: unknown) => {
    await writeWords(parts, generation, { ...written, words }).catch((failure: unknown) =>
      parts.log.warn({ err: failure }, 'Words of records could not be written'),
    );
    throw error;
  });
  await write(parts, generation, { ...written, passages, words });
  parts.measures.generated.inc({}, texts.filter(({ text }) => text !== '').length);
}

/** The vectors of all passages, asked for at once. Throws `ModelError`. */
async function embedAll(
  parts: EmbeddingParts,
  generation: GenerationRow,
  texts: readonly RecordTexts[],
): Promise<readonly PassageRow[]> {
  const model = parts.models.of(generation);
  const cut = texts.map((record) => ({
    ...record,
    passages: model ? passagesOf(record.text, model.passageLength) : [],
  }));
  const all = cut.flatMap(({ passages }) => passages.map(({ text }) => text));
  const sent = cut.filter(({ passages }) => passages.length > 0).map(({ id }) => id);
  const { vectors } =
    model && all.length > 0
      ? await audited(parts, generation, { sent, texts: all.length }, () =>
          model.embed(all, 'passage'),
        )
      : { vectors: [] };
  let at = 0;
  return cut.flatMap(({ id, hash, passages }) => {
    const own = vectors.slice(at, at + passages.length);
    at += passages.length;
    if (passages.length === 0) return [emptyRow(id, hash)];
    return passages.map((passage, ordinal) =>
      passageRow({ id, hash, ordinal }, passage, own[ordinal]),
    );
  });
}

/** Failures before anything was sent. */
const unsent: ReadonlySet<string> = new Set(['budget', 'busy']);

/** Texts that leave the platform are noted in the audit log: of which records, not what they say. */
async function audited<T extends { readonly tokens: number }>(
  { audit, schemas }: EmbeddingParts,
  { id: generationId, provider, model, schemaName, sourceFields }: GenerationRow,
  { sent, texts }: { readonly sent: readonly string[]; readonly texts: number },
  send: () => Promise<T>,
): Promise<T> {
  if (provider === builtInProvider) return send();
  const about = { provider, model, generationId, fields: sourceFields, records: sent, texts };
  const owner = schemas.get(schemaName)?.ownerModule;
  const modules = owner === undefined ? null : ['embeddings', owner];
  const entry = {
    ...{ caller: reader, action: 'embeddings.send', target: `schema:${schemaName}` },
    modules,
  };
  try {
    const answer = await send();
    const changes = { ...about, tokens: answer.tokens };
    await audit.record({ ...entry, outcome: 'success', changes });
    return answer;
  } catch (error) {
    const failure = error instanceof ModelError ? error.failure : 'unknown';
    if (!unsent.has(failure))
      await audit.record({ ...entry, outcome: 'failed', changes: { ...about, failure } });
    throw error;
  }
}
