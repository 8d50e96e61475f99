/** Texts of functions, compiled in an isolate. */
import ivm from 'isolated-vm';
import type { LoadedSource, SourceForm } from '../protocol.ts';

export interface Source extends LoadedSource {
  readonly form: SourceForm;
  /** Name in stacks. */
  readonly file: string;
}

/** What of a compilation the next sandbox of the same function can use. */
export interface CompileCache {
  data?: ivm.ExternalCopy<ArrayBuffer> | undefined;
}

/** The parameters of the function that a text of the form `body` is the body of. */
export const BODY_HEAD = '(async function (grpcSdk, req, res, ctx, require, module, exports) {\n';
export const BODY_TAIL = '\n})';

/** Compiles with what an earlier compilation left, and leaves the same for later ones. */
export async function compile(
  isolate: ivm.Isolate,
  code: string,
  where: { readonly filename: string; readonly lineOffset?: number },
  cache: CompileCache,
): Promise<ivm.Script> {
  if (cache.data) return isolate.compileScript(code, { ...where, cachedData: cache.data });
  const script = await isolate.compileScript(code, { ...where, produceCachedData: true });
  cache.data = (script as { readonly cachedData?: ivm.ExternalCopy<ArrayBuffer> }).cachedData;
  return script;
}

/** Only parses. Throws what the parser says, with the place. */
export async function checkSource(source: Source): Promise<void> {
  const isolate = new ivm.Isolate({ memoryLimit: 64 });
  try {
    if (source.form === 'module')
      await isolate.compileModule(source.code, { filename: source.file });
    else await checkBody(isolate, source);
  } finally {
    isolate.dispose();
  }
}

/** Within two kinds of brackets: a text that closes those around it fits into one of them alone. */
async function checkBody(isolate: ivm.Isolate, source: Source): Promise<void> {
  await compileBody(isolate, source, {});
  const method = `({ async body() {\n${source.code}\n} })`;
  await isolate.compileScript(method, { filename: source.file, lineOffset: -1 });
}

export const compileBody = (
  isolate: ivm.Isolate,
  { code, file }: Pick<Source, 'code' | 'file'>,
  cache: CompileCache,
): Promise<ivm.Script> =>
  compile(isolate, BODY_HEAD + code + BODY_TAIL, { filename: file, lineOffset: -1 }, cache);
