/** Finds the types of a document, and looks at the shape of each of their documents. */
import { Compile } from 'typebox/compile';
import type { ConfigService } from '../../../../kernel/config/service.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { invalidInput, problemsOf, type ValidatorError } from '../../../../kernel/operations/problems.ts';
import { unknownKeys } from '../../../../kernel/operations/unknown-keys.ts';
import type { StateRegistry, StateType } from '../../../../kernel/state/state.ts';
import type { StateContent, TypePart } from './document.ts';

/** The documents of one type that somebody keeps. */
export interface KnownPart extends TypePart {
  readonly state: StateType;
}

/** The types of the document in the order in which they are written. Throws 400 for what nobody keeps, and for wrong shapes. */
export function requireTypes(
  { state, config }: { readonly state: StateRegistry; readonly config: ConfigService },
  { types, configs }: StateContent,
): readonly KnownPart[] {
  const all = state.all();
  const problems: Problem[] = [...configs.keys()]
    .filter((module) => !config.definition(module))
    .map((module) => ({ path: `configs.modules.${module}`, rule: 'exists', message: 'there is no such module here' }));
  const known = types.flatMap((part): readonly KnownPart[] => {
    const place = `modules.${part.module}.${part.type}`;
    const found = all.find(({ module, type }) => module === part.module && type === part.type);
    if (!found) problems.push({ path: place, rule: 'exists', message: absence(part, all, config) });
    else if (configs.get(part.module)?.active === false)
      problems.push({ path: place, rule: 'active', message: 'the same document switches this module off: leave out either' });
    return found ? [{ ...part, state: found }] : [];
  });
  problems.push(...known.flatMap(shapeProblems));
  if (problems.length > 0) throw invalidInput(problems);
  return known.toSorted((a, b) => all.indexOf(a.state) - all.indexOf(b.state));
}

function absence({ module }: TypePart, all: readonly StateType[], config: ConfigService): string {
  if (!config.definition(module)) return 'there is no such module here';
  return all.some((one) => one.module === module)
    ? 'the module keeps no such type'
    : 'the module keeps no state, or does not run: switch it on first (active: true)';
}

/** One document cannot mean two things by one key, so twins are refused as well. */
function shapeProblems({ state, documents }: KnownPart): readonly Problem[] {
  if (documents.length === 0) return [];
  const validator = Compile(state.document);
  const seen = new Set<string>();
  return documents.flatMap(({ document, place }): readonly Problem[] => {
    if (!validator.Check(document)) {
      const found = problemsOf(state.document, validator.Errors(document) as readonly ValidatorError[], '');
      return found.map((problem) => ({ ...problem, path: problem.path === '' ? place : `${place}.${problem.path}` }));
    }
    const key = state.keyOf(document);
    const twin = seen.has(key) ? [{ path: place, rule: 'unique', message: `${key} is there twice` }] : [];
    seen.add(key);
    return [...unknownKeys(state.document, document, place), ...twin];
  });
}
