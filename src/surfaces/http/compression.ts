/**
 * Compressed answers (RFC 9110 8.4.1): long texts, for clients that ask for them. What is short is sent as it is, since
 * it would not arrive sooner. A request with cookies gets nothing compressed: only cookies go along with requests that
 * a page of somebody else makes, and the length of a compressed answer tells such a page what stands in it beside its
 * own text (BREACH, CVE-2013-3587). Bearer tokens are out of its reach.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import { headerOf } from '../../kernel/request-header.ts';

export interface CompressedBody {
  readonly bytes: Buffer;
  readonly encoding: 'br' | 'gzip';
}

/** Characters from which it pays; a few packets of the network. */
const MIN_LENGTH = 4_096;

const brotli = promisify(brotliCompress);
const zip = promisify(gzip);

const compressible =
  /^(?:text\/|application\/(?:json|javascript|xml|[\w.+-]+\+(?:json|xml))(?:;|$))/;

/** Compressed bodies of what says by an ETag what it is, such as the program of the API viewer. */
const kept = new Map<string, CompressedBody>();
const MAX_KEPT = 16;
/** Longer ones are not kept: they would be in memory for the few who ask. */
const MAX_KEPT_LENGTH = 4_194_304;

/** The answer as it goes out compressed; nothing where it goes out as it is. */
export function packedFor(
  { headers, method }: Pick<IncomingMessage, 'headers' | 'method'>,
  base: readonly string[],
  answer: Answer,
): Promise<{ readonly varied: Answer; readonly packed: CompressedBody }> | undefined {
  const encoding = encodingFor(headers, method, answer);
  if (encoding === undefined) return undefined;
  // Caches must know that others got it in another form.
  const vary = base.includes('vary') ? 'Origin, Accept-Encoding' : 'Accept-Encoding';
  const varied = { ...answer, headers: { ...answer.headers, vary } };
  return compressed(answer, encoding).then((packed) => ({ varied, packed }));
}

/** A strong ETag promises the same bytes to everybody: such answers stay as they are. */
function encodingFor(
  headers: IncomingHttpHeaders,
  method: string | undefined,
  answer: Answer,
): CompressedBody['encoding'] | undefined {
  const accepted = headerOf(headers, 'accept-encoding');
  if (accepted === undefined || answer.body.length < MIN_LENGTH) return undefined;
  if (headerOf(headers, 'cookie') !== undefined || method === 'HEAD' || answer.status === 206)
    return undefined;
  const { etag, 'content-type': type, 'content-encoding': encoded } = answer.headers;
  if (encoded !== undefined || (etag !== undefined && !etag.startsWith('W/'))) return undefined;
  if (!answer.json && !compressible.test(type ?? '')) return undefined;
  return bestOf(String(accepted));
}

/** Brotli before gzip, whatever the order; `q=0` refuses one. */
function bestOf(accepted: string): CompressedBody['encoding'] | undefined {
  const offered = new Set<string>();
  for (const part of accepted.slice(0, 200).split(',')) {
    const [name = '', ...parameters] = part.trim().toLowerCase().split(';');
    const refused = parameters.some((one) => /^q=0(?:\.0*)?$/.test(one.trim()));
    if (!refused) offered.add(name.trim());
  }
  if (offered.has('br')) return 'br';
  return offered.has('gzip') ? 'gzip' : undefined;
}

/** Beside the event loop. What has an ETag is compressed once. */
async function compressed(
  { body, headers }: Answer,
  encoding: CompressedBody['encoding'],
): Promise<CompressedBody> {
  const key = headers.etag === undefined ? undefined : `${encoding} ${headers.etag}`;
  const known = key === undefined ? undefined : kept.get(key);
  if (known) return known;
  const quality = key === undefined ? 4 : 9;
  const bytes =
    encoding === 'br'
      ? await brotli(body, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } })
      : await zip(body, { level: Math.min(quality, 6) });
  const made = { bytes, encoding };
  if (key !== undefined && body.length <= MAX_KEPT_LENGTH) {
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, made);
  }
  return made;
}
