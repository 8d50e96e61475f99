/**
 * One isolate with one context and one function in it. It has one run at a time and is kept for the next one of the same
 * function. No reference of the process is ever given to the isolate: functions that take and give texts are all it gets.
 */
import ivm from 'isolated-vm';
import { answerAtOnce } from './asked.ts';
import { type CompileCache, compile, compileBody, type Source } from './compile.ts';
import { PRELUDE_FILE, preludeText } from './prelude-text.ts';
import { watch } from './watch.ts';

/** What the owner of a sandbox hears from the code in it. */
export interface SandboxEvents {
  post(call: number, name: string, text: string): void;
  log(level: string, text: string): void;
  timer(timer: number, ms: number): void;
  /** The end of the run. */
  done(text: string): void;
  /** A part of the code that nobody waits for has failed. */
  stray(error: unknown): void;
  /** The process has worked so long for the code, outside of its isolate. */
  worked(ms: number): void;
}

interface BodyEntries {
  readonly cache: CompileCache;
  readonly use: EntryReference;
  readonly addPackage: EntryReference;
}

/** What the code said while this thread ran it. */
type Said =
  | { readonly what: 'post'; readonly of: Parameters<SandboxEvents['post']> }
  | { readonly what: 'log'; readonly of: Parameters<SandboxEvents['log']> }
  | { readonly what: 'timer'; readonly of: Parameters<SandboxEvents['timer']> }
  | { readonly what: 'done'; readonly of: Parameters<SandboxEvents['done']> };

type EntryReference = ivm.Reference<(...args: unknown[]) => unknown>;
type EntryArguments = readonly (string | number | boolean)[];

const preludeCache: CompileCache = {};
let prelude: string | undefined;

export class Sandbox {
  readonly isolate: ivm.Isolate;
  events: SandboxEvents | undefined;
  /** Something of its code has begun to run. */
  entered = false;
  /** When it became free, on the clock of `performance.now()`. */
  freeSince = 0;
  cpuWhenFree = 0;
  /** Of the heap, when it was last looked at. */
  memoryBytes = 0;
  #measuredAt = 0;
  #begin: EntryReference | undefined;
  #answer: EntryReference | undefined;
  #fire: EntryReference | undefined;
  #stop: EntryReference | undefined;
  #said: Said[] = [];
  /** Its name where parts on the thread of the process are looked at. */
  #slot: number | undefined;
  /** Parts of the run, and of loading its code, that its own thread has not done yet. */
  #there = 0;
  /** The end of the run, told while a part of it goes on. */
  #held: string | undefined;

  constructor(memoryMb: number) {
    this.isolate = new ivm.Isolate({
      memoryLimit: Math.max(8, memoryMb),
      // V8 cannot go on: the process ends, without waiting for other isolates, and its owner begins another one.
      onCatastrophicError: () => process.kill(process.pid, 'SIGKILL'),
    });
  }

  /** Rejects with what the code throws while it is loaded. User code never runs on the thread of the process. */
  async load(source: Source, cache: CompileCache): Promise<void> {
    this.#there += 1;
    try {
      await this.#load(source, cache);
    } finally {
      this.#there -= 1;
    }
  }

  async #load(source: Source, cache: CompileCache): Promise<void> {
    const context = await this.isolate.createContext();
    prelude ??= preludeText();
    const script = await compile(this.isolate, prelude, { filename: PRELUDE_FILE }, preludeCache);
    const install = script.runSync(context, { reference: true }) as unknown as EntryReference;
    const list = install.applySync(undefined, this.#waysOut(), {
      result: { reference: true },
    }) as unknown as ivm.Reference<readonly unknown[]>;
    const entry = (at: number): EntryReference =>
      list.getSync(at, { reference: true }) as unknown as EntryReference;
    this.#begin = entry(0);
    this.#answer = entry(1);
    this.#fire = entry(2);
    this.#stop = entry(3);
    if (source.form === 'module') await this.#loadModule(context, source, entry(5));
    else await this.#loadBody(context, source, { cache, use: entry(5), addPackage: entry(4) });
  }

  #waysOut(): ivm.Callback[] {
    const later = { ignored: true } as const;
    const now = { sync: true } as const;
    const { post, log, timer, done } = {
      post: (...of: Parameters<SandboxEvents['post']>) => this.events?.post(...of),
      log: (...of: Parameters<SandboxEvents['log']>) => this.events?.log(...of),
      timer: (...of: Parameters<SandboxEvents['timer']>) => this.events?.timer(...of),
      done: (text: string) => this.#hold(text),
    };
    const say = (said: Said): void => void this.#said.push(said);
    return [
      ...[post, log, timer, done].map((way) => new ivm.Callback(way, later)),
      new ivm.Callback((...of: Parameters<typeof post>) => say({ what: 'post', of }), now),
      new ivm.Callback((...of: Parameters<typeof log>) => say({ what: 'log', of }), now),
      new ivm.Callback((...of: Parameters<typeof timer>) => say({ what: 'timer', of }), now),
      new ivm.Callback((...of: Parameters<typeof done>) => say({ what: 'done', of }), now),
      new ivm.Callback((name: string, text: string) => this.#answerNow(name, text), now),
    ];
  }

  #answerNow(name: string, text: string): string {
    const began = performance.now();
    const answer = answerAtOnce(name, text);
    this.events?.worked(performance.now() - began);
    return answer;
  }

  async #loadBody(
    context: ivm.Context,
    source: Source,
    { cache, use, addPackage }: BodyEntries,
  ): Promise<void> {
    for (const [name, code] of Object.entries(source.packages)) {
      this.entered = true;
      const text = `(function (module) { var exports = module.exports;\n${code}\n})`;
      const where = { filename: `package:${name}`, lineOffset: -1 };
      const script = await this.isolate.compileScript(text, where);
      const made = await this.#value(script, context);
      await addPackage.apply(undefined, [name, made.derefInto()] as never);
    }
    const made = await this.#value(await compileBody(this.isolate, source, cache), context);
    await use.apply(undefined, [made.derefInto(), false] as never);
  }

  async #value(script: ivm.Script, context: ivm.Context): Promise<EntryReference> {
    return (await script.run(context, { reference: true })) as unknown as EntryReference;
  }

  async #loadModule(context: ivm.Context, source: Source, use: EntryReference): Promise<void> {
    const { isolate } = this;
    const module = await isolate.compileModule(source.code, { filename: source.file });
    const known = new Map<string, ivm.Module>();
    await module.instantiate(context, async (specifier) => {
      const there = known.get(specifier);
      if (there) return there;
      if (!Object.hasOwn(source.packages, specifier))
        throw new Error(`The package "${specifier}" was not bundled with this function`);
      const made = await isolate.compileModule(source.packages[specifier] ?? '', {
        filename: `package:${specifier}`,
      });
      known.set(specifier, made);
      return made;
    });
    this.entered = true;
    await module.evaluate();
    const given = (await module.namespace.get('default', {
      reference: true,
    })) as unknown as EntryReference;
    await use.apply(undefined, [given.derefInto(), true] as never);
  }

  /** Begins the run on the thread of the isolate. Rejects when that is ended meanwhile. */
  begin(input: string): Promise<void> {
    this.entered = true;
    return this.#thereDo(this.#begin as EntryReference, [input, false]);
  }

  /**
   * Runs the code on this thread, up to the first thing that it has to wait for. What it said has an effect only when that
   * is over. False where it took too long or broke: nothing has happened then, and the isolate is of no more use.
   */
  beginNow(input: string): boolean {
    this.entered = true;
    return this.#doNow(this.#begin as EntryReference, [input, true]);
  }

  /** Goes on in the same way, where the thread of the isolate has nothing to do. */
  answerNow(call: number, ok: boolean, text: string): boolean {
    return this.#doNow(this.#answer as EntryReference, [call, ok, text, true]);
  }

  #doNow(entry: EntryReference, args: EntryArguments): boolean {
    this.#said = [];
    if (!this.#watched(() => entry.applySync(undefined, [...args]))) return false;
    const all = this.#said;
    this.#said = [];
    for (const said of all) this.#hear(said);
    return true;
  }

  #watched(part: () => unknown): boolean {
    this.#slot ??= watch().add(this.isolate);
    watch().enter(this.#slot);
    try {
      part();
      return watch().leave();
    } catch {
      watch().leave();
      return false;
    }
  }

  /** Everything that follows at once is part of it. */
  async #thereDo(entry: EntryReference | undefined, args: EntryArguments): Promise<void> {
    this.#there += 1;
    try {
      await entry?.apply(undefined, [...args]);
    } finally {
      this.#there -= 1;
    }
    if (this.#there === 0) this.letEnd();
  }

  /** The thread of the isolate has nothing to do: nobody waits for it who uses the isolate. */
  get isIdle(): boolean {
    return this.#there === 0;
  }

  /** The code has said how its run ends, and goes on. */
  get isEnding(): boolean {
    return this.#held !== undefined;
  }

  #hold(text: string): void {
    this.#held ??= text;
    if (this.#there === 0) this.letEnd();
  }

  /** Tells the end that was held. */
  letEnd(): void {
    const text = this.#held;
    this.#held = undefined;
    if (text !== undefined) this.events?.done(text);
  }

  #hear(said: Said): void {
    const { events } = this;
    if (said.what === 'post') events?.post(...said.of);
    else if (said.what === 'log') events?.log(...said.of);
    else if (said.what === 'timer') events?.timer(...said.of);
    else events?.done(...said.of);
  }

  readonly #strayed = (error: unknown): void => this.events?.stray(error);

  answer(call: number, ok: boolean, text: string): void {
    this.#thereDo(this.#answer, [call, ok, text, false]).catch(this.#strayed);
  }

  fire(timer: number): void {
    this.#thereDo(this.#fire, [timer]).catch(this.#strayed);
  }

  /** Tells the code by `ctx.signal` that its time is nearly over. */
  stop(reason: string): void {
    this.#thereDo(this.#stop, [reason]).catch(this.#strayed);
  }

  /** Milliseconds of processor time since it was made. */
  get cpuMs(): number {
    return this.isolate.isDisposed ? 0 : Number(this.isolate.cpuTime) / 1e6;
  }

  /** The heap is looked at once in a while: it takes a turn on the thread of the isolate. */
  isMeasureDue(now: number): boolean {
    return !this.isolate.isDisposed && (this.memoryBytes === 0 || now - this.#measuredAt >= 500);
  }

  async measure(now: number): Promise<void> {
    this.#note(now, await this.isolate.getHeapStatistics());
  }

  /** The same on this thread, in the time of a part. False where the isolate is of no more use. */
  measureNow(now: number): boolean {
    return this.#watched(() => this.#note(now, this.isolate.getHeapStatisticsSync()));
  }

  #note(now: number, heap: ivm.HeapStatistics): void {
    this.#measuredAt = now;
    this.memoryBytes = heap.used_heap_size + heap.externally_allocated_size;
  }

  dispose(): void {
    this.events = undefined;
    if (this.#slot !== undefined) watch().forget(this.#slot);
    try {
      this.isolate.dispose();
    } catch {
      // It is ended already, perhaps at this moment.
    }
  }
}
