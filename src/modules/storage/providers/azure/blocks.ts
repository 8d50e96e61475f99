/**
 * Uploads in parts as Azure has them: blocks that wait beside their blob, by names of our choice. The store knows no
 * upload, so its id says what there is to know, and proves that we made it.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  type MultipartUpload,
  type ObjectFacts,
  type ObjectPlace,
  type PartTag,
  ProviderError,
  requirePartNumber,
  requirePlace,
} from '../provider.ts';
import { StoreRefusal, succeeded } from '../remote/answers.ts';
import { exactly } from '../remote/parts.ts';
import type { RequestBody, StoreAnswer, StoreRequest } from '../remote/transport.ts';

interface BlockParts {
  readonly send: (
    method: string,
    place: ObjectPlace,
    sending?: Partial<Pick<StoreRequest, 'headers' | 'body' | 'signal'>> & {
      readonly query?: Readonly<Record<string, string>>;
    },
  ) => Promise<StoreAnswer>;
  /** Key of the account. */
  readonly key: Buffer;
  readonly factsOf: (place: ObjectPlace) => Promise<ObjectFacts>;
}

interface PutPart {
  readonly place: ObjectPlace;
  readonly uploadId: string;
  readonly signal?: AbortSignal | undefined;
}

export interface BlockUploads extends MultipartUpload {
  stage(upload: PutPart, number: number, body: RequestBody): Promise<PartTag>;
}

export const partOf = (
  uploads: BlockUploads,
  upload: PutPart,
  { number, body }: { readonly number: number; readonly body: RequestBody },
): Promise<PartTag> => uploads.stage(upload, number, body);

export function createBlockUploads({ send, key, factsOf }: BlockParts): BlockUploads {
  const proof = (id: string, type: string, { bucket, key: name }: ObjectPlace): string =>
    createHmac('sha256', key).update([id, type, bucket, name].join('\n')).digest('base64url');
  const open = (place: ObjectPlace, uploadId: string): { id: string; type: string } => {
    requirePlace(place);
    const [id = '', type = '', given] = uploadId.split('.');
    if (given !== proof(id, type, place))
      throw new ProviderError('NOT_FOUND', 'There is no such upload for this object');
    return { id, type: Buffer.from(type, 'base64url').toString() };
  };
  const stage: BlockUploads['stage'] = async ({ place, uploadId, signal }, number, body) => {
    requirePartNumber(number);
    const tag = blockId(open(place, uploadId).id, number);
    const query = { comp: 'block', blockid: tag };
    (await succeeded(await send('PUT', place, { query, body, signal }))).body.resume();
    return { number, tag };
  };
  const commit = (place: ObjectPlace, tags: readonly string[], headers: Record<string, string>) => {
    const list = tags.map((tag) => `<Latest>${tag}</Latest>`).join('');
    const bytes = Buffer.from(
      `<?xml version="1.0" encoding="utf-8"?><BlockList>${list}</BlockList>`,
    );
    const typed = { 'content-type': 'application/xml', ...headers };
    return send('PUT', place, { query: { comp: 'blocklist' }, headers: typed, body: { bytes } });
  };
  return {
    stage,
    async begin(place, { contentType }) {
      requirePlace(place);
      const [id, type] = [randomUUID(), Buffer.from(contentType).toString('base64url')];
      return [id, type, proof(id, type, place)].join('.');
    },
    async part(place, uploadId, { number, body, size }) {
      const once = Readable.from(exactly(body, size), { objectMode: false });
      try {
        return (await stage({ place, uploadId }, number, { once, size })).tag;
      } finally {
        body.destroy();
      }
    },
    async complete(place, uploadId, parts) {
      const { id, type } = open(place, uploadId);
      const other = parts.find(({ number, tag }) => tag !== blockId(id, number));
      if (other) throw new ProviderError('NOT_FOUND', `Part ${other.number} is another one`);
      const tags = parts.map(({ tag }) => tag);
      const answer = await commit(place, tags, { 'x-ms-blob-content-type': type });
      (await succeeded(answer)).body.resume();
      return factsOf(place);
    },
    async abort(place, uploadId) {
      open(place, uploadId);
      await dropBlocks(place, commit, send);
    },
  };
}

/**
 * The store forgets waiting blocks when their blob is written, and after a week by itself. Where there is a blob, it
 * is left as it is; else an empty one is written and deleted at once.
 */
async function dropBlocks(
  place: ObjectPlace,
  commit: (place: ObjectPlace, tags: [], headers: Record<string, string>) => Promise<StoreAnswer>,
  send: BlockParts['send'],
): Promise<void> {
  try {
    const written = await succeeded(await commit(place, [], { 'if-none-match': '*' }));
    written.body.resume();
    (await succeeded(await send('DELETE', place))).body.resume();
  } catch (error) {
    const known = error instanceof StoreRefusal && [404, 409, 412].includes(error.status);
    if (!known) throw error;
  }
}

/** Of one length for all blocks of a blob. */
const blockId = (id: string, number: number): string =>
  Buffer.from(`${id}-${String(number).padStart(5, '0')}`).toString('base64');
