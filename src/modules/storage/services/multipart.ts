/**
 * Reads `multipart/form-data` with exactly one file, whose bytes are passed on while they arrive. Fields may stand
 * before the file and behind it.
 */
import type { Busboy } from '@fastify/busboy';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { storageErrors } from '../errors.ts';
import { ownPiece } from '../providers/provider.ts';
import { endOfForm, type FileHead, type FormEnds, PlainForm } from './plain-form.ts';

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

export interface FilePart extends FileHead {
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
 * Calls `onFile` when the file begins; it reads the body to its end or throws, and the form is given up then. The body
 * ends when the form does, so what is said behind the file is known by then. Throws UPLOAD_INVALID, and what the body and
 * `onFile` throw.
 */
export async function readForm<T>(
  stream: BodyStream,
  onFile: (part: FilePart) => Promise<T>,
): Promise<ReadForm<T>> {
  const source = stream[Symbol.asyncIterator]();
  const { contentTypeHeader: type } = stream;
  const fields = new Map<string, string>();
  const read: Buffer[] = [];
  try {
    const plain = await PlainForm.open(type, source, { read, fields });
    if (plain) {
      const body = plain.body(plainEnds(type, source, fields));
      return { result: await onFile({ ...plain.file, body, fields }), fields };
    }
    const form = new FormReader(await parserOf(type), following(read, source), { fields });
    const file = await form.file();
    return { result: await onFile({ ...file, body: form.body(), fields }), fields };
  } finally {
    // Not awaited: a client that sends nothing must not keep who has heard enough.
    source.return?.()?.catch(() => undefined);
  }
}

/** Throws UPLOAD_INVALID. */
async function parserOf(contentType: string): Promise<Parser> {
  const { Busboy } = await library();
  try {
    return new Busboy({ headers: { 'content-type': contentType }, limits });
  } catch (error) {
    throw malformed('the boundary is missing', error);
  }
}

/** What was read before, and then what comes. */
const following = (
  read: readonly Buffer[],
  source: AsyncIterator<Buffer>,
): Pick<AsyncIterator<Buffer>, 'next'> => {
  const first = read.values();
  return {
    async next() {
      const before = first.next();
      return before.done ? source.next() : before;
    },
  };
};

function plainEnds(
  type: string,
  source: AsyncIterator<Buffer>,
  fields: Map<string, string>,
): FormEnds {
  return {
    owned,
    breaksOff: () => malformed('the form breaks off'),
    async rest(bytes) {
      const end = endOfForm(bytes, type, fields);
      if (end === 'file') throw malformed('there is more than one file');
      if (end === undefined)
        await new FormReader(await parserOf(type), following([bytes], source), {
          fields,
          hasFile: true,
        }).rest();
      else while (!(await source.next()).done);
    },
  };
}

/** What a chunk may hold beside the bytes of one slice, so that nothing but these is said in it: no other part is so short. */
const BESIDE_BYTES = 40;

/** Gives the parser a chunk when more of the file is asked for. */
class FormReader {
  readonly #parser: Parser;
  readonly #source: Pick<AsyncIterator<Buffer>, 'next'>;
  #chunk: Buffer | undefined;
  #file: FileHead | undefined;
  /** Of the file, not asked for yet. */
  readonly #slices: Buffer[] = [];
  #problem: { readonly error: unknown } | undefined;
  readonly #ended = Promise.withResolvers<void>();

  /** `hasFile`: the file has been before. */
  constructor(
    parser: Parser,
    source: Pick<AsyncIterator<Buffer>, 'next'>,
    { fields, hasFile = false }: { fields: Map<string, string>; hasFile?: boolean },
  ) {
    this.#parser = parser;
    this.#source = source;
    // biome-ignore lint/complexity/useMaxParams: the parser's own signature
    parser.on('file', (field, body, fileName, _encoding, mimeType) => {
      body.on('error', (error) => this.#fail(malformed('the form breaks off', error)));
      if (hasFile || this.#file || field !== 'file' || !fileName) {
        body.resume();
        const why =
          hasFile || this.#file
            ? 'there is more than one file'
            : 'the part of the file is called file';
        return this.#fail(malformed(why));
      }
      this.#file = { fileName, mimeType };
      body.on('data', (slice: Buffer) => this.#slices.push(owned(slice, this.#chunk)));
    });
    // What is thrown in these ends the process: there is nobody above.
    parser.on('field', (name: string | undefined, value, nameCut, valueCut) => {
      if (name === undefined) return this.#fail(malformed('a part has no name'));
      if (nameCut || valueCut) this.#fail(malformed(`the field ${name.slice(0, 50)} is too long`));
      fields.set(name, value);
    });
    for (const event of ['partsLimit', 'fieldsLimit'] as const)
      parser.on(event, () => this.#fail(malformed('there are too many parts')));
    parser.on('error', (error) => this.#fail(malformed('the form breaks off', error)));
    parser.on('finish', () => this.#ended.resolve());
  }

  /** Reads until the file begins. */
  async file(): Promise<FileHead> {
    for (let more = true; more && !this.#file; ) more = await this.#feed();
    if (!this.#file) throw malformed('there is no file');
    return this.#file;
  }

  /** The bytes of the file; reads to the end of the form. */
  async *body(): AsyncGenerator<Buffer> {
    for (let more = true; more || this.#slices.length > 0; ) {
      for (let slice = this.#slices.shift(); slice; slice = this.#slices.shift()) yield slice;
      if (more) more = await this.#feed();
    }
  }

  /** Reads to the end of the form. */
  async rest(): Promise<void> {
    while (await this.#feed());
  }

  /** False when that was the end. */
  async #feed(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done) {
      this.#parser.end();
      await this.#ended.promise;
    } else {
      this.#chunk = next.value;
      await new Promise<void>((resolve) => this.#parser.write(next.value, () => resolve()));
    }
    if (this.#problem) throw this.#problem.error;
    return !next.done;
  }

  #fail(error: unknown): void {
    this.#problem ??= { error };
    this.#ended.resolve();
  }
}

/** A slice that is nearly all of its chunk is all that is left of it. */
function owned(slice: Buffer, chunk: Buffer | undefined): Buffer {
  const isChunk =
    chunk?.buffer === slice.buffer &&
    chunk.length === chunk.buffer.byteLength &&
    chunk.length - slice.length <= BESIDE_BYTES;
  return isChunk && slice.length > BESIDE_BYTES ? ownPiece(slice) : slice;
}

const malformed = (why: string, cause?: unknown) =>
  storageErrors.UPLOAD_INVALID({
    message: `Send one file as multipart/form-data, in a part called file: ${why}`,
    errors: [{ path: 'file', rule: 'multipart', message: why }],
    cause,
  });
