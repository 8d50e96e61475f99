/**
 * Submissions as HTML forms send them: `application/x-www-form-urlencoded`, and `multipart/form-data` whose files are
 * passed on while they arrive. A name that comes more than once is a list.
 */
import { isUtf8 } from 'node:buffer';
import { errors } from '../../../kernel/errors.ts';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { formErrors } from '../errors.ts';

/** Bytes of the part of a body that is no file. */
export const FORM_BYTES = 1_048_576;
/** Values of one body. */
const MAX_VALUES = 1_000;

export type Values = Record<string, unknown>;

export interface FilePart {
  readonly field: string;
  /** As the client names it, without folders. */
  readonly fileName: string;
  readonly mimeType: string;
  readonly body: AsyncIterable<Buffer>;
}

const emptyValues = (): Values => Object.create(null) as Values;

function add(values: Values, name: string, value: string): void {
  const known = values[name];
  if (known === undefined) values[name] = value;
  else if (Array.isArray(known)) known.push(value);
  else values[name] = [known, value];
}

const malformed = (why: string, cause?: unknown) =>
  formErrors.SUBMISSION_INVALID({ message: `The form cannot be read: ${why}`, cause });

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** Calls `onFile` for each file; it reads the body to its end, or throws and ends the reading. */
export function readFormBody(
  stream: BodyStream,
  onFile: (part: FilePart) => Promise<void>,
): Promise<Values> {
  return stream.contentType === 'multipart/form-data'
    ? readMultipart(stream, onFile)
    : readUrlEncoded(stream);
}

async function readUrlEncoded(stream: BodyStream): Promise<Values> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > FORM_BYTES)
      throw errors.PAYLOAD_TOO_LARGE({ message: `The body is larger than ${FORM_BYTES} bytes` });
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  if (!isUtf8(bytes)) throw malformed('it is not UTF-8');
  const values = emptyValues();
  let count = 0;
  for (const [name, value] of new URLSearchParams(bytes.toString('utf8'))) {
    count += 1;
    if (count > MAX_VALUES) throw malformed('it has too many values');
    add(values, name, value);
  }
  return values;
}

const limits = {
  fields: MAX_VALUES,
  fieldNameSize: 200,
  fieldSize: FORM_BYTES,
  files: 50,
  parts: MAX_VALUES + 50,
  headerPairs: 30,
  headerSize: 8_192,
};

async function readMultipart(
  stream: BodyStream,
  onFile: (part: FilePart) => Promise<void>,
): Promise<Values> {
  // Loaded by the first form.
  const { Busboy } = await import('@fastify/busboy');
  const parser = openParser(
    () => new Busboy({ headers: { 'content-type': stream.contentTypeHeader }, limits }),
  );
  const values = emptyValues();
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  const working: Promise<void>[] = [];
  const open = new Set<{ destroy(error?: Error): unknown }>();
  const fail = (error: unknown): void => {
    failure.reject(error);
    for (const part of open) part.destroy(error instanceof Error ? error : undefined);
  };
  let bytes = 0;
  // biome-ignore lint/complexity/useMaxParams: the parser's own signature
  parser.on('file', (field, body, fileName, _encoding, mimeType) => {
    body.on('error', () => undefined);
    // Browsers send an empty part without a name where no file was chosen.
    if (!fileName) return void body.resume();
    open.add(body);
    const work = onFile({ field, fileName, mimeType, body: body as AsyncIterable<Buffer> });
    // Handled at once: until the client sends more, nobody waits for those in `working`.
    work.catch(fail).finally(() => void open.delete(body));
    working.push(work);
  });
  parser.on('field', (name: string | undefined, value, nameCut, valueCut) => {
    // What is thrown here ends the process: there is nobody above.
    if (name === undefined) return fail(malformed('a part has no name'));
    bytes += name.length + value.length;
    if (nameCut || valueCut || bytes > FORM_BYTES)
      return fail(errors.PAYLOAD_TOO_LARGE({ message: 'The fields of the form are too large' }));
    add(values, name, value);
  });
  for (const event of ['partsLimit', 'fieldsLimit', 'filesLimit'] as const)
    parser.on(event, () => fail(malformed('it has too many parts')));
  parser.on('error', (error) => fail(malformed('it breaks off', error)));
  try {
    await feed(stream, parser, failure.promise);
    await Promise.all(working);
  } catch (error) {
    fail(error);
    // Whoever stores files is done before the answer goes out, so that all of them are known.
    await Promise.allSettled(working);
    throw error;
  }
  return values;
}

function openParser<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw malformed('the boundary is missing', error);
  }
}

interface Parser {
  write(chunk: Buffer): boolean;
  end(): void;
  once(event: 'finish' | 'drain', listener: () => void): unknown;
}

async function feed(stream: BodyStream, parser: Parser, failed: Promise<never>): Promise<void> {
  for await (const chunk of stream) {
    if (!parser.write(chunk))
      await Promise.race([new Promise<void>((resolve) => parser.once('drain', resolve)), failed]);
    else await Promise.race([undefined, failed]);
  }
  const finished = new Promise<void>((resolve) => parser.once('finish', resolve));
  parser.end();
  await Promise.race([finished, failed]);
}
