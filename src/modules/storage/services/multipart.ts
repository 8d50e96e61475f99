/**
 * Reads `multipart/form-data` with exactly one file, whose bytes are passed on while they arrive. Fields may stand
 * before the file and behind it.
 */
import type { Busboy, BusboyFileStream } from '@fastify/busboy';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { storageErrors } from '../errors.ts';

type Parser = InstanceType<typeof Busboy>;

const load = () => import('@fastify/busboy');
let loaded: ReturnType<typeof load> | undefined;
/** Loaded by the first form. */
const library = (): ReturnType<typeof load> => {
  loaded ??= load();
  return loaded;
};

const limits = {
  fields: 30,
  fieldNameSize: 100,
  fieldSize: 16_384,
  parts: 40,
  headerPairs: 30,
  headerSize: 8_192,
};

export interface FilePart {
  /** As the client names it, without folders. */
  readonly fileName: string;
  /** As the client says: a hint. */
  readonly mimeType: string;
  readonly body: AsyncIterable<Buffer>;
  /** The fields that stood before it; complete when the form has ended. */
  readonly fields: ReadonlyMap<string, string>;
}

export interface ReadForm<T> {
  readonly fields: ReadonlyMap<string, string>;
  /** What `onFile` answered. */
  readonly result: T;
}

/**
 * Calls `onFile` when the file begins; it reads the body to its end or throws, and the form is given up then. Throws
 * UPLOAD_INVALID, and what the body and `onFile` throw.
 */
export async function readForm<T>(
  stream: BodyStream,
  onFile: (part: FilePart) => Promise<T>,
): Promise<ReadForm<T>> {
  const { Busboy } = await library();
  const fields = new Map<string, string>();
  let parser: Parser;
  try {
    parser = new Busboy({ headers: { 'content-type': stream.contentTypeHeader }, limits });
  } catch (error) {
    throw malformed('the boundary is missing', error);
  }
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  let part: BusboyFileStream | undefined;
  let result: Promise<T> | undefined;
  const fail = (error: unknown): void => {
    failure.reject(error);
    part?.destroy(error instanceof Error ? error : undefined);
  };
  // biome-ignore lint/complexity/useMaxParams: the parser's own signature
  parser.on('file', (field, body, fileName, _encoding, mimeType) => {
    body.on('error', () => undefined);
    if (result || field !== 'file' || !fileName) {
      body.resume();
      fail(
        malformed(result ? 'there is more than one file' : 'the part of the file is called file'),
      );
      return;
    }
    part = body;
    result = onFile({ fileName, mimeType, body: body as AsyncIterable<Buffer>, fields });
    result.catch(fail);
  });
  parser.on('field', (name, value, nameCut, valueCut) => {
    if (nameCut || valueCut) fail(malformed(`the field ${name.slice(0, 50)} is too long`));
    fields.set(name, value);
  });
  for (const event of ['partsLimit', 'fieldsLimit'] as const)
    parser.on(event, () => fail(malformed('there are too many parts')));
  parser.on('error', (error) => fail(malformed('the form breaks off', error)));
  await feed(stream, parser, failure.promise).catch((error: unknown) => {
    fail(error);
    // The file is given up first, so that nothing of it is left when the answer goes out.
    return (result ?? Promise.resolve()).then(
      () => Promise.reject(error),
      () => Promise.reject(error),
    );
  });
  if (!result) throw malformed('there is no file');
  return { result: await result, fields };
}

async function feed(stream: BodyStream, parser: Parser, failed: Promise<never>): Promise<void> {
  for await (const chunk of stream) {
    if (!parser.write(chunk)) await Promise.race([drained(parser), failed]);
    else await Promise.race([undefined, failed]);
  }
  const finished = new Promise<void>((resolve) => parser.once('finish', resolve));
  parser.end();
  await Promise.race([finished, failed]);
}

const drained = (parser: Parser): Promise<void> =>
  new Promise((resolve) => parser.once('drain', resolve));

const malformed = (why: string, cause?: unknown) =>
  storageErrors.UPLOAD_INVALID({
    message: `Send one file as multipart/form-data, in a part called file: ${why}`,
    errors: [{ path: 'file', rule: 'multipart', message: why }],
    cause,
  });
