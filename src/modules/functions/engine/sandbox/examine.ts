/** What a text is before it is stored: body or module, with types or without, and which packages it asks for. */
import type { CheckedFacts, SourceForm, UserError } from '../protocol.ts';
import { checkSource } from './compile.ts';
import { errorOfTypeScript, NoParser, withoutTypes } from './typescript.ts';
import { errorOfUser } from './user-errors.ts';

interface Examined {
  readonly facts: CheckedFacts;
  /** The text that runs. */
  readonly text: string;
}

const moduleLine = /^[ \t\ufeff]{0,40}(?:export|import)[\s{*]/m;
/** Without it a text is no module. */
const moduleWord = /\b(?:export|import)\b/;
const defaultExport =
  /\bexport\s{1,40}default\b|\bas\s{1,40}default\b|\{\s{0,40}default\s{0,40}[,}]/;
/** Followed by what begins a value that is no function. */
const constantDefault =
  /^export[ \t]{1,40}default[ \t]{1,40}(?:['"`[{\d]|(?:class|true|false|null|undefined)\b)/m;
const requireCall = /\brequire\(\s*(['"])([@\w./-]{1,200})\1\s*\)/g;
/** Where an import begins, or its list of names ends. */
const importLine = /^(?:import\b|\})/;
const importedName = /(?:\bfrom|^import)\s{0,10}(['"])([@\w./-]{1,200})\1/;
const MAX_LINE = 2_000;

/** One way to read a text, and why it cannot be read so. */
interface Reading extends Examined {
  readonly error: UserError | undefined;
}

/**
 * Rejects with `NoParser`. Reads a text in one way after the other until one makes sense: the form that it looks like (a line that begins with
 * `export`) is not always its form (such a line in a text, all in one line). Where none does, the one that came furthest
 * tells what is wrong: the parser of JavaScript ends at the first type.
 */
export async function examine(code: string, file: string): Promise<Examined> {
  const likely: SourceForm = moduleLine.test(code) ? 'module' : 'body';
  const other: SourceForm = likely === 'module' ? 'body' : 'module';
  const forms = moduleWord.test(code) ? [likely, other] : [likely];
  let furthest: Examined | undefined;
  for (const form of forms)
    for (const read of [asJavaScript, asTypeScript]) {
      const { facts, text, error } = await read(code, form, file);
      if (!error) return { facts, text };
      const before = furthest?.facts.error;
      if (!before || isFurther(error, before)) furthest = { facts: { ...facts, error }, text };
    }
  return furthest as Examined;
}

/** What has no place was found when everything was read. */
const lineOf = ({ line = Number.MAX_SAFE_INTEGER }: UserError): number => line;

const isFurther = (one: UserError, than: UserError): boolean =>
  lineOf(one) > lineOf(than) ||
  (lineOf(one) === lineOf(than) && (one.column ?? 0) > (than.column ?? 0));

async function asJavaScript(code: string, form: SourceForm, file: string): Promise<Reading> {
  const error = await problemOf(code, form, file);
  return { facts: factsOf(code, form, 'javascript'), text: code, error };
}

async function asTypeScript(code: string, form: SourceForm, file: string): Promise<Reading> {
  try {
    const text = withoutTypes(code, form);
    const error = await problemOf(text, form, file);
    return { facts: factsOf(text, form, 'typescript'), text, error };
  } catch (error) {
    if (error instanceof NoParser) throw error;
    const wrong = inText(errorOfTypeScript(error, form), code);
    return { facts: factsOf(code, form, 'typescript'), text: code, error: wrong };
  }
}

async function problemOf(
  code: string,
  form: SourceForm,
  file: string,
): Promise<UserError | undefined> {
  try {
    await checkSource({ code, form, file, packages: {} });
    if (form === 'body') return undefined;
    if (!defaultExport.test(code))
      return { name: 'SyntaxError', message: 'the module has no default export' };
    return await constantExport(code, file);
  } catch (error) {
    return inText(errorOfUser(error as Error, file), code);
  }
}

/**
 * A default export that is a value can never be called. It is the export, and not a text that looks like one, where the
 * module can have another once it is an ordinary constant.
 */
async function constantExport(code: string, file: string): Promise<UserError | undefined> {
  const found = constantDefault.exec(code);
  if (!found) return undefined;
  const { index } = found;
  const rest = code.slice(index).replace(/^export\s+default/, 'const penstockConstant =');
  const other = `${code.slice(0, index)}${rest}\nexport default penstockConstant;`;
  try {
    await checkSource({ code: other, form: 'module', file, packages: {} });
  } catch {
    return undefined;
  }
  const line = code.slice(0, index).split('\n').length;
  const message =
    'the default export is no function: write export default async function (ctx, req) { ... }';
  return { name: 'SyntaxError', message, line, column: 1 };
}

/** What is not closed is noticed behind the text, in what the platform puts around it: the place is the end of the text. */
function inText(error: UserError, code: string): UserError {
  if (error.name === 'RangeError') return tooDeep;
  const lines = code.split('\n');
  if (error.line === undefined || error.line <= lines.length) return error;
  const last = lines.findLastIndex((line) => line.trim() !== '');
  return {
    name: error.name,
    message: 'Unexpected end of the code: something is not closed, or is closed once too often',
    line: Math.max(0, last) + 1,
    column: (lines[last]?.trimEnd().length ?? 0) + 1,
  };
}

/** The stack of the parser was full: nobody knows where. */
const tooDeep: UserError = {
  name: 'SyntaxError',
  message: 'the code is nested too deeply: no parser reads it',
};

function factsOf(code: string, form: SourceForm, language: CheckedFacts['language']): CheckedFacts {
  const names =
    form === 'module'
      ? importedNames(code)
      : [...code.matchAll(requireCall)].flatMap(([, , name]) => name ?? []);
  return { form, language, packages: [...new Set(names)] };
}

const importedNames = (code: string): readonly string[] =>
  code
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => importLine.test(line))
    .flatMap((line) => importedName.exec(line.slice(0, MAX_LINE))?.[2] ?? []);
