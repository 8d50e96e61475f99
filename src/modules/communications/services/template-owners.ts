/**
 * Whose a mail template is: of the module that brought it, because what it says opens accounts, or is of users of that
 * module.
 */
import {
  type AuthorityObject,
  modulesOfCaller,
  requireAuthority,
} from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { builtInTexts, templateOrigin } from '../template-queries.ts';
import { parseTemplate, partialsOf } from './template-language.ts';

export interface TemplateOwners {
  /** What whoever changes the template, or reads what was sent by it, must be allowed to touch. */
  ownersOf(name: string): readonly AuthorityObject[];
  /** The same of every template of a module that uses this part. */
  ownersOfPart(part: string): Promise<readonly AuthorityObject[]>;
  /** Throws 403 where the template was brought by a module that the scopes of the caller do not reach. */
  requireOwner(caller: Caller, name: string): void;
  /** The same for every template of a module that uses this part. */
  requireOwnersOfPart(caller: Caller, part: string): Promise<void>;
  /** The same by the id of the template; answers where it comes from. */
  requireOwnerOf(caller: Caller, id: string): ReturnType<typeof templateOrigin>;
}

/** `builtIn`: the templates of all modules that run, by name. */
export function createTemplateOwners(
  database: Queryable,
  builtIn: ReadonlyMap<string, { readonly module: string }>,
): TemplateOwners {
  const ownersOf: TemplateOwners['ownersOf'] = (name) => {
    const module = builtIn.get(name)?.module;
    return module === undefined ? [] : [{ kind: 'module', module }];
  };
  const requireOwner: TemplateOwners['requireOwner'] = (caller, name) =>
    requireAuthority(caller, ...ownersOf(name));
  const ownersOfPart: TemplateOwners['ownersOfPart'] = async (part) => {
    const owners: AuthorityObject[] = [];
    for (const { name, texts } of await builtInTexts(database))
      if (await usesPart(database, texts, part)) owners.push(...ownersOf(name));
    return owners;
  };
  return {
    ownersOf,
    ownersOfPart,
    requireOwner,
    async requireOwnersOfPart(caller, part) {
      if (modulesOfCaller(caller) === undefined) return;
      requireAuthority(caller, ...(await ownersOfPart(part)));
    },
    async requireOwnerOf(caller, id) {
      const origin = await templateOrigin(database, id);
      if (origin) requireOwner(caller, origin.name);
      return origin;
    },
  };
}

/** Whether a part stands in these texts, or in a part that they use. */
async function usesPart(
  database: Queryable,
  texts: readonly string[],
  part: string,
): Promise<boolean> {
  const templates = texts.map((text) => parseTemplate(text));
  if (templates.some(({ partials }) => partials.includes(part))) return true;
  return (await partialsOf(database, templates)).has(part);
}
