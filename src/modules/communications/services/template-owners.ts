/**
 * Whose a mail template is: of the module that brought it, or makes its messages from it, because what these say opens
 * accounts, or is of users of that module.
 */
import {
  type AuthorityObject,
  modulesOfCaller,
  requireAuthority,
} from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { templateOrigin, textsOfModules } from '../template-queries.ts';
import { parseTemplate, partialsOf } from './template-language.ts';

/** Names of templates. */
export type UsedTemplates = () => Promise<readonly string[]>;

export interface TemplateOwners {
  /** What whoever changes the template must be allowed to touch. */
  ownersOf(name: string): Promise<readonly AuthorityObject[]>;
  /** What is of a module that makes its messages from templates of operators: `used` answers the names of these. */
  onUse(module: string, used: UsedTemplates): void;
  /** The same of every template of a module that uses this part. */
  ownersOfPart(part: string): Promise<readonly AuthorityObject[]>;
  /** Throws 403 for who may not read what was sent by a template: the module that brought it is asked for. */
  requireOwner(caller: Caller, name: string): void;
  /** Throws 403 for who may not change a part: each template of a module that uses it is asked about. */
  requireOwnersOfPart(caller: Caller, part: string): Promise<void>;
  /** Throws 403 for who may not make, change or delete a template of that name. */
  requireWriter(caller: Caller, name: string): Promise<void>;
  /** The same by the id of a template, and for the name that it gets; answers where it comes from. */
  requireOwnerOf(caller: Caller, id: string, next?: string): ReturnType<typeof templateOrigin>;
}

/** `builtIn`: the templates of all modules that run, by name. */
export function createTemplateOwners(
  database: Queryable,
  builtIn: ReadonlyMap<string, { readonly module: string }>,
): TemplateOwners {
  const users = new Map<string, UsedTemplates>();
  const broughtBy = (name: string): readonly AuthorityObject[] => {
    const module = builtIn.get(name)?.module;
    return module === undefined ? [] : [{ kind: 'module', module }];
  };
  /** By module: what it makes its messages from, beside what it brought. */
  const allUsed = () =>
    Promise.all([...users].map(async ([module, used]) => [module, await used()] as const));
  const ownersOf: TemplateOwners['ownersOf'] = async (name) => [
    ...broughtBy(name),
    ...(await allUsed()).flatMap(([module, names]) =>
      names.includes(name) ? [{ kind: 'module', module } as const] : [],
    ),
  ];
  const ownersOfPart: TemplateOwners['ownersOfPart'] = async (part) => {
    const names = (await allUsed()).flatMap(([, used]) => used);
    const owners: AuthorityObject[] = [];
    for (const { name, texts } of await textsOfModules(database, names))
      if (await usesPart(database, texts, part)) owners.push(...(await ownersOf(name)));
    return owners;
  };
  const requireWriter: TemplateOwners['requireWriter'] = async (caller, name) => {
    if (modulesOfCaller(caller) === undefined) return;
    requireAuthority(caller, ...(await ownersOf(name)));
  };
  return {
    ownersOf,
    requireWriter,
    ownersOfPart,
    onUse: (module, used) => void users.set(module, used),
    requireOwner: (caller, name) => requireAuthority(caller, ...broughtBy(name)),
    async requireOwnersOfPart(caller, part) {
      if (modulesOfCaller(caller) === undefined) return;
      requireAuthority(caller, ...(await ownersOfPart(part)));
    },
    async requireOwnerOf(caller, id, next) {
      const origin = await templateOrigin(database, id);
      if (origin) await requireWriter(caller, origin.name);
      if (next !== undefined) await requireWriter(caller, next);
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
