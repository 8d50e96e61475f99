/** Reads a public test file, whichever of the published forms it has. */
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { type Store, type Suite, storeCases, suiteCases } from './openfga.ts';
import type { PublicCase } from './public-case.ts';
import { type Validation, validationCases } from './spicedb.ts';

/** Throws for a file that has none of the forms. */
export async function readPublicCases(file: string): Promise<readonly PublicCase[]> {
  const content: unknown = parse(await readFile(file, 'utf8'));
  if (typeof content !== 'object' || content === null) throw new Error('it is no test file');
  if ('schema' in content || 'schemaFile' in content)
    return validationCases(content as Validation, file);
  const tests = 'tests' in content && Array.isArray(content.tests) ? content.tests : [];
  if (tests.some((test) => typeof test === 'object' && test !== null && 'stages' in test))
    return suiteCases({ tests } as Suite);
  if ('model' in content || 'model_file' in content) return storeCases(content as Store, file);
  throw new Error('it is neither a suite or store of OpenFGA nor a validation file of SpiceDB');
}

/** True for the forms that are read here; others are our own cases. */
export const isPublicForm = (file: string): boolean => /\.ya?ml$/.test(file);
