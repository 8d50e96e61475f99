/** What stores say, in the words of providers. Their texts go no further than the log. */
import { XMLParser } from 'fast-xml-parser';
import { ProviderError, type ProviderProblem } from '../provider.ts';
import { type StoreAnswer, textOf } from './transport.ts';

/** Elements of an answer; whatever may stand several times is a list. */
export type XmlNode = Readonly<Record<string, unknown>>;

const parser = new XMLParser({
  ignoreAttributes: true,
  parseTagValue: false,
  trimValues: false,
  htmlEntities: true,
  isArray: (name) => name === 'Contents' || name === 'Blob',
});

/** Empty for what is no XML. */
export function parseXml(text: string): XmlNode {
  try {
    return nodeOf(parser.parse(text));
  } catch {
    return {};
  }
}

export const nodeOf = (value: unknown): XmlNode =>
  typeof value === 'object' && value !== null ? (value as XmlNode) : {};
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');

const byCode = new Map<string, ProviderProblem>([
  ['NoSuchKey', 'NOT_FOUND'],
  ['NoSuchBucket', 'NOT_FOUND'],
  ['NoSuchUpload', 'NOT_FOUND'],
  ['InvalidPart', 'NOT_FOUND'],
  ['InvalidPartOrder', 'NOT_FOUND'],
  ['InvalidBlockList', 'NOT_FOUND'],
  ['BlobNotFound', 'NOT_FOUND'],
  ['ContainerNotFound', 'NOT_FOUND'],
  ['CannotVerifyCopySource', 'NOT_FOUND'],
  ['BucketNotEmpty', 'NOT_EMPTY'],
  ['InvalidRange', 'OUT_OF_RANGE'],
  ['IncompleteBody', 'LENGTH_MISMATCH'],
  ['InvalidBucketName', 'INVALID_PLACE'],
  ['KeyTooLongError', 'INVALID_PLACE'],
  ['InvalidResourceName', 'INVALID_PLACE'],
  ['XMinioStorageFull', 'NO_SPACE'],
  ['QuotaExceeded', 'NO_SPACE'],
  ['ServerBusy', 'UNAVAILABLE'],
  ['SlowDown', 'UNAVAILABLE'],
  ['ContainerBeingDeleted', 'UNAVAILABLE'],
]);

/** What a store refused, by its own code. */
export class StoreRefusal extends ProviderError {
  readonly status: number;
  readonly code: string;

  constructor(problem: ProviderProblem, status: number, code: string) {
    super(problem, `The store answered ${status} ${code}`.trim());
    this.status = status;
    this.code = code;
  }
}

/** Passes what went well; everything else is a `StoreRefusal`. */
export async function succeeded(answer: StoreAnswer): Promise<StoreAnswer> {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw refusalOf(answer.status, await textOf(answer), textIn(answer.headers['x-ms-error-code']));
}

/** The text of a good answer. A store may say 200 and change its mind while it works. */
export async function answeredText(answer: StoreAnswer): Promise<string> {
  const text = await textOf(await succeeded(answer));
  if (parseXml(text).Error !== undefined) throw refusalOf(500, text);
  return text;
}

function refusalOf(status: number, text: string, header = ''): StoreRefusal {
  const code = header || textIn(nodeOf(parseXml(text).Error).Code);
  return new StoreRefusal(byCode.get(code) ?? byStatus(status), status, code.slice(0, 100));
}

function byStatus(status: number): ProviderProblem {
  if (status === 404) return 'NOT_FOUND';
  if (status === 416) return 'OUT_OF_RANGE';
  if (status === 507) return 'NO_SPACE';
  return status >= 500 || status === 429 || status === 408 ? 'UNAVAILABLE' : 'REFUSED';
}

/** Something else for what is not there. */
export async function unlessNotFound<T>(work: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ProviderError && error.problem === 'NOT_FOUND') return otherwise;
    throw error;
  }
}

/** ETags come with quotes, sometimes marked as weak. */
export const bareEtag = (header: string | undefined): string =>
  (header ?? '').replace(/^W\//, '').replaceAll('"', '');
