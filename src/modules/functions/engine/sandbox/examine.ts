/** What a text is before it is stored: body or module, with types or without, and which packages it asks for. */
import type { CheckedFacts, SourceForm, UserError } from '../protocol.ts';
import { checkSource } from './sandbox.ts';
import { withoutTypes } from './typescript.ts';
import { errorOfUser } from './user-errors.ts';

interface Examined {
  readonly facts: CheckedFacts;
  /** The text that runs. */
  readonly text: string;
}

const moduleLine = /^[ \t]{0,40}(?:export|import)[\s{*]/m;
const defaultExport =
  /\bexport\s{1,40}default\b|\bas\s{1,40}default\b|\{\s{0,40}default\s{0,40}[,}]/;
const requireCall = /\brequire\(\s*(['"])([@\w./-]{1,200})\1\s*\)/g;
/** Where an import begins, or its list of names ends. */
const importLine = /^(?:import\b|\})/;
const importedName = /(?:\bfrom|^import)\s{0,10}(['"])([@\w./-]{1,200})\1/;
const MAX_LINE = 2_000;

export async function examine(code: string, file: string): Promise<Examined> {
  const form: SourceForm = moduleLine.test(code) ? 'module' : 'body';
  const plain = await problemOf(code, form, file);
  if (!plain) return { facts: factsOf(code, form, 'javascript'), text: code };
  try {
    const text = withoutTypes(code, form);
    const error = await problemOf(text, form, file);
    const facts = factsOf(text, form, 'typescript');
    return { facts: error ? { ...facts, error } : facts, text };
  } catch {
    // Neither is it TypeScript: what is wrong is what the parser of JavaScript says.
    return { facts: { ...factsOf(code, form, 'javascript'), error: plain }, text: code };
  }
}

async function problemOf(
  code: string,
  form: SourceForm,
  file: string,
): Promise<UserError | undefined> {
  try {
    await checkSource({ code, form, file, packages: {} });
    if (form === 'body' || defaultExport.test(code)) return undefined;
    return { name: 'SyntaxError', message: 'the module has no default export' };
  } catch (error) {
    return inText(errorOfUser(error as Error, file), code);
  }
}

/** What is not closed is noticed behind the text, in what the platform puts around it: the place is the end of the text. */
function inText(error: UserError, code: string): UserError {
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
