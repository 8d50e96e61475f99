/**
 * What the platform and a sandbox process say to each other: frames on one socket, each a small JSON header and a text
 * that is passed on as it is (input, result, arguments). The platform believes nothing of what comes back but that it
 * came from that process.
 */

/** How the text of a function is written: the body of a function, or an ES module with a default export. */
export const sourceForms = ['body', 'module'] as const;
export type SourceForm = (typeof sourceForms)[number];

export interface RunLimits {
  /** Milliseconds of processor time. */
  readonly cpuMs: number;
  readonly memoryMb: number;
  readonly maxResultBytes: number;
  readonly maxLogBytes: number;
}

/** What a sandbox process is told. The text of `load` is a `LoadedSource`, of `check` the code, of `run` the input, of `answer` the value or a `UserError`. */
export type ToSandbox =
  | { readonly t: 'load'; readonly key: string; readonly form: SourceForm; readonly file: string }
  | { readonly t: 'check'; readonly id: number; readonly file: string }
  | {
      readonly t: 'run';
      readonly id: number;
      readonly key: string;
      /** Milliseconds that are left. */
      readonly leftMs: number;
      readonly limits: RunLimits;
    }
  | (GivenAnswer & { readonly t: 'answer'; readonly id: number })
  | { readonly t: 'cancel'; readonly id: number }
  | { readonly t: 'drop'; readonly key: string };

/**
 * Runs that one process has at once: each needs an isolate, and keeps it while it waits. With more, runs would wait for the
 * end of others that may be waiting for them.
 */
export const MAX_RUNS = 80;

export interface GivenAnswer {
  readonly call: number;
  readonly ok: boolean;
  /** What the run has asked for until now has only read: it could begin again. */
  readonly again: boolean;
}

export interface LoadedSource {
  readonly code: string;
  /** Bundled packages by the name under which they are asked for. */
  readonly packages: Readonly<Record<string, string>>;
}

/** An error of user code, as it may be shown to operators. */
export interface UserError {
  readonly name: string;
  readonly message: string;
  /** Only frames of the function itself. */
  readonly stack?: string | undefined;
  readonly code?: string | undefined;
  readonly status?: number | undefined;
  /** In the source as it was written. */
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  /** What the code says has caused it. */
  readonly cause?: UserError | undefined;
}

export const logLevels = ['debug', 'log', 'info', 'warn', 'error'] as const;

export interface LogLine {
  readonly level: (typeof logLevels)[number];
  readonly text: string;
  /** Milliseconds since the run began. */
  readonly at: number;
}

/** What a function sets about the answer of its request beside the data. */
export interface ReplyOptions {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cookies?: readonly Readonly<Record<string, unknown>>[];
  readonly redirect?: string;
}

export const outcomes = [
  'ok',
  'error',
  'rejected',
  'timeout',
  /** Its time was over before its code had begun. */
  'unavailable',
  'cpu',
  'memory',
  'cancelled',
] as const;
export type Outcome = (typeof outcomes)[number];

export interface RunEnd {
  readonly t: 'end';
  readonly id: number;
  readonly outcome: Outcome;
  readonly error?: UserError;
  readonly reply?: ReplyOptions;
  readonly logs: readonly LogLine[];
  readonly cpuMs: number;
  readonly memoryBytes: number;
}

/** What is found out about a text before it is stored. */
export interface CheckedFacts {
  readonly form: SourceForm;
  readonly language: 'javascript' | 'typescript';
  /** Packages that it asks for by a literal name. */
  readonly packages: readonly string[];
  /** Why it cannot run. */
  readonly error?: UserError;
}

/** What a sandbox process says. The text of `call` is the arguments, of `end` the result as JSON (empty: undefined). */
export type FromSandbox =
  | { readonly t: 'ready' }
  /** With the text that runs: the code without its types, every line and column in its place. */
  | { readonly t: 'checked'; readonly id: number; readonly facts: CheckedFacts }
  | { readonly t: 'missing'; readonly id: number }
  /** It can examine nothing any more: what it was asked and has not answered is to be asked elsewhere. */
  | { readonly t: 'worn' }
  /** The run is at rest, or computes, unlike others with as many open calls. */
  | { readonly t: 'rest'; readonly id: number; readonly rests: boolean }
  /** The run has begun to cost more than most do. */
  | { readonly t: 'hog'; readonly id: number }
  | { readonly t: 'call'; readonly id: number; readonly call: number; readonly name: string }
  /** Lines of the log of a run that goes on; the end has them again, with those that came after them. */
  | { readonly t: 'lines'; readonly id: number; readonly lines: readonly LogLine[] }
  | RunEnd;

/** Bytes of one frame. More than any result, and no more than a process should hold at once. */
const MAX_FRAME = 64 * 1024 * 1024;
const HEAD_BYTES = 8;

export function encodeFrame(header: ToSandbox | FromSandbox, text = ''): Buffer {
  const head = JSON.stringify(header);
  const headBytes = Buffer.byteLength(head);
  const textBytes = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEAD_BYTES + headBytes + textBytes);
  frame.writeUInt32LE(headBytes + textBytes, 0);
  frame.writeUInt32LE(headBytes, 4);
  frame.write(head, HEAD_BYTES, 'utf8');
  frame.write(text, HEAD_BYTES + headBytes, 'utf8');
  return frame;
}

/** Puts frames together again; throws for what is none. */
export class FrameReader<Header> {
  #chunks: Buffer[] = [];
  #size = 0;
  readonly #onFrame: (header: Header, text: string) => void;

  constructor(onFrame: (header: Header, text: string) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    while (this.#size >= HEAD_BYTES) {
      const head = this.#peek(HEAD_BYTES);
      const length = head.readUInt32LE(0);
      const headerLength = head.readUInt32LE(4);
      if (length > MAX_FRAME || headerLength > length)
        throw new Error('This is no frame of the sandbox protocol');
      if (this.#size < HEAD_BYTES + length) return;
      const frame = this.#take(HEAD_BYTES + length);
      const header = JSON.parse(
        frame.toString('utf8', HEAD_BYTES, HEAD_BYTES + headerLength),
      ) as Header;
      this.#onFrame(header, frame.toString('utf8', HEAD_BYTES + headerLength));
    }
  }

  #peek(bytes: number): Buffer {
    const [first] = this.#chunks;
    if (first && first.length >= bytes) return first;
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }

  #take(bytes: number): Buffer {
    const whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
    const all = whole as Buffer;
    this.#chunks = all.length > bytes ? [all.subarray(bytes)] : [];
    this.#size -= bytes;
    return all.subarray(0, bytes);
  }
}
