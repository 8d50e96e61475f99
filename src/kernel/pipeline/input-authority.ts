/** What the input of an operation is about, as the operation declares it (`OperationFacts.about`). */

import {
  type AuthorityObject,
  moduleOfOperation,
  modulesOfCaller,
  requireAuthority,
} from '../authority.ts';
import type { Caller } from '../caller.ts';
import type { Operation } from '../operations/operation.ts';
import type { DecodedInput } from '../operations/operation-input.ts';

/** The objects of an installation by the names that inputs have for them. `undefined`: there is none, so the handler answers 404. */
export interface ObjectDirectory {
  /** A configuration document by its name. */
  config(name: string): AuthorityObject | undefined;
  /** A schema by its name or id. */
  schema(nameOrId: string): AuthorityObject | undefined;
  /** A type of the permission model, or an object of one (`Team:7`). Those that operators declare belong to whoever sets permissions. */
  type(object: string): AuthorityObject | undefined;
}

/** What the schema registry knows of a schema, as far as authority asks. */
export interface OwnedSchema {
  readonly name: string;
  readonly ownerModule: string;
}

/** Throws 403 when the input is about something that the credential is not for. Nothing is asked of credentials without modules. */
export function requireInputObjects(
  caller: Caller,
  { about }: Operation,
  input: DecodedInput,
  directory: ObjectDirectory,
): void {
  if (about === undefined || modulesOfCaller(caller) === undefined) return;
  requireAuthority(caller, ...objectsIn(about, input, directory));
}

/**
 * The modules that a call says something about: that of the operation, and those of what its input names. `null`: more
 * than they can say, such as accounts of operators, or what the service alone finds in the input.
 */
export function modulesAbout(
  operation: Operation,
  input: DecodedInput,
  directory: ObjectDirectory,
): readonly string[] | null {
  const { about = {}, unscoped } = operation;
  if (unscoped || Object.values(about).includes('inside')) return null;
  const modules = objectsIn(about, input, directory).map(moduleOfObject);
  if (modules.includes(undefined)) return null;
  return [
    ...new Set([moduleOfOperation(operation), ...modules.filter((one) => one !== undefined)]),
  ];
}

/** What the directory knows of the input. */
const objectsIn = (
  about: NonNullable<Operation['about']>,
  input: DecodedInput,
  directory: ObjectDirectory,
): readonly AuthorityObject[] =>
  Object.entries(about).flatMap(([name, kind]) =>
    kind === 'inside' || kind === 'open'
      ? []
      : valuesOf(input, name).flatMap((value) => directory[kind](value) ?? []),
  );

function moduleOfObject(object: AuthorityObject): string | undefined {
  if (object.kind === 'schema') return object.ownerModule;
  return 'module' in object ? object.module : undefined;
}

/** The texts that stand under a name, wherever the input has it. */
function valuesOf({ params, query, body }: DecodedInput, name: string): readonly string[] {
  return [params, query, body].flatMap((place) => {
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, name)) return [];
    const value: unknown = (place as Record<string, unknown>)[name];
    return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
  });
}
