/**
 * Mail templates. Modules bring theirs at start; operators change them or add others. All of them are
 * rows, so that a change holds on every node for the next message.
 */

import { all, type Condition, contains, equals } from '../../../data/conditions/condition.ts';
import type { RecordText } from '../../../data/records/store.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { cutText } from '../../../kernel/text.ts';
import { messageErrors } from '../errors.ts';
import { inLanguage, requireLocales } from '../readers.ts';
import { requireSenderForm } from '../recipients.ts';
import { emailTemplateSchema } from '../schemas.ts';
import {
  externalTemplate,
  type HeldBy,
  isNameTaken,
  lockTemplateNames,
  storeBuiltIn,
  templateByName,
  templateOrigin,
} from '../template-queries.ts';
import {
  type Partials,
  parsePart,
  parseTemplate,
  partialsOf,
  type Template,
} from './template-language.ts';
import { createTemplateOwners, type TemplateOwners } from './template-owners.ts';

/** A template that a module brings. */
export interface BuiltInTemplate {
  readonly name: string;
  readonly subject: string;
  /** HTML. */
  readonly body: string;
}

export interface TemplateInput {
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly sender?: string;
  /** Subject and body by language. */
  readonly translations?: Readonly<Record<string, Translation>>;
  /** Names for readers, beside those that the texts use: these are found and always listed. */
  readonly variables?: readonly string[];
  /** What the editor of an operator keeps beside it. */
  readonly jsonTemplate?: string;
}

/** What a template says in another language. */
export interface Translation {
  readonly subject: string;
  readonly body: string;
}

export interface TemplateFilter {
  readonly skip: number;
  readonly limit: number;
  /** Field names, `-` in front for descending. */
  readonly sort: readonly string[];
  readonly search?: string | undefined;
}

export interface ReadyTemplate {
  readonly subject: Template;
  readonly body: Template;
  readonly sender: string | undefined;
  readonly partials: Partials;
}

export interface Templates extends TemplateOwners {
  /** Stores what a module brings unless operators changed it; call it at start. */
  register(module: string, templates: readonly BuiltInTemplate[]): Promise<void>;
  /** The template as it is now, in a language or else in the first one; throws TEMPLATE_NOT_FOUND. `locale` is asked only where there are several. */
  resolve(
    name: string,
    locale?: () => Promise<string | undefined> | string | undefined,
  ): Promise<ReadyTemplate>;
  /** What texts need to be filled. */
  ready(texts: Translation & { readonly sender?: string | undefined }): Promise<ReadyTemplate>;
  /** JSON text `{documents, count}`; `search` is a part of the name. */
  list(filter: TemplateFilter): Promise<string>;
  get(id: string): Promise<RecordText>;
  create(caller: Caller, input: TemplateInput): Promise<RecordText>;
  /** What a provider holds of it changes too, by a job, unless the change is `from` there. */
  update(
    caller: Caller,
    id: string,
    change: Partial<TemplateInput>,
    from?: 'provider',
  ): Promise<RecordText>;
  /** Deletes, at the provider too; a template that a module brought gets its first text back instead. */
  remove(caller: Caller, ids: readonly string[]): Promise<void>;
}

const schema = emailTemplateSchema.name;
const asModule = system('communications');

type Dependencies = Pick<Kernel, 'database' | 'records' | 'jobs'>;

export function createTemplates(dependencies: Dependencies): Templates {
  const { database, records } = dependencies;
  const builtIn = new Map<string, BuiltInTemplate & { readonly module: string }>();

  const owners = createTemplateOwners(database, builtIn);
  const store = (templates: readonly BuiltInTemplate[], force: boolean) =>
    storeBuiltIn(
      database,
      templates.map((one) => ({ id: newId(), ...one, variables: variablesOf(one) })),
      force,
    );

  const ready: Templates['ready'] = async (texts) => {
    const [subject, body] = [parsePart('subject', texts.subject), parsePart('body', texts.body)];
    const partials = await partialsOf(database, [subject, body]);
    return { subject, body, sender: texts.sender, partials };
  };

  return {
    ...owners,
    async register(module, templates) {
      for (const template of templates) builtIn.set(template.name, { ...template, module });
      await store(templates, false);
    },
    async resolve(name, locale) {
      const stored = await templateByName(database, name);
      if (!stored)
        throw messageErrors.TEMPLATE_NOT_FOUND({
          message: `There is no template ${cutText(name, 100)}`,
        });
      const language = stored.translations ? await locale?.() : undefined;
      return ready(inOneLanguage(stored, language));
    },
    ready,
    list: (filter) => listTemplates(dependencies, filter),
    get: (id) => unlessMissing(() => records.get(asModule, schema, id)),
    async create(caller, input) {
      checkTemplate(input);
      await owners.requireWriter(caller, input.name);
      return database.transaction(async (transaction) => {
        await lockTemplateNames(transaction);
        if (await isNameTaken(transaction, input.name, null)) throw messageErrors.TEMPLATE_EXISTS();
        return records.create(asModule, schema, {
          ...input,
          variables: variablesOf(input, input.variables),
        });
      });
    },
    async update(caller, id, change, from) {
      await owners.requireOwnerOf(caller, id, change.name);
      return update(dependencies, id, change, from);
    },
    remove: (caller, ids) =>
      database.transaction(async (transaction) => {
        for (const id of new Set(ids)) {
          const origin = await owners.requireOwnerOf(caller, id);
          const first = origin?.builtIn ? builtIn.get(origin.name) : undefined;
          const restore = first && (() => store([first], true));
          await removeTemplate(dependencies, transaction, id, restore);
        }
      }),
  };
}

const listTemplates = (
  { records }: Pick<Dependencies, 'records'>,
  { search, skip, limit, sort }: TemplateFilter,
): Promise<string> =>
  records.select(asModule, schema, {
    skip,
    limit,
    sort: sort.length > 0 ? sort : ['name'],
    filter: nameContains(search),
  });

/** Deletes one, at the provider that holds it too. A template that a module brought gets its first text back by `restore`. */
export async function removeTemplate(
  dependencies: Pick<Dependencies, 'records' | 'jobs'>,
  transaction: Transaction,
  id: string,
  restore?: () => Promise<unknown>,
): Promise<void> {
  const held = await externalTemplate(transaction, id);
  if (restore) await restore();
  else await unlessMissing(() => dependencies.records.remove(asModule, schema, id));
  if (held) await followAtProvider(dependencies, transaction, { ...held, id });
}

/** Name of the job that brings changes of a template to the provider that holds it too. */
export const providerTemplateJob = 'communications.provider-template';

/** What is changed or deleted here needs no provider: a job tells it, as often as it takes. */
const followAtProvider = (
  { jobs }: Pick<Dependencies, 'jobs'>,
  transaction: Transaction,
  { id, externalId, provider }: HeldBy & { readonly id: string },
): Promise<unknown> =>
  jobs.enqueue(providerTemplateJob, { id, externalId, provider }, { transaction });

function update(
  { database, records, jobs }: Dependencies,
  id: string,
  change: Partial<TemplateInput>,
  from?: 'provider',
): Promise<RecordText> {
  return database.transaction(async (transaction) => {
    // The names that it uses follow from both texts: others may just be changing one of them.
    await lockTemplateNames(transaction);
    const before = JSON.parse(
      (await unlessMissing(() => records.get(asModule, schema, id))).json,
    ) as TemplateInput;
    const { name, subject, body } = { ...before, ...change };
    const further = change.variables ?? furtherVariables(before);
    checkTemplate({
      subject,
      body,
      ...(change.sender === undefined ? {} : { sender: change.sender }),
      ...(change.translations === undefined ? {} : { translations: change.translations }),
    });
    const origin = await templateOrigin(database, id);
    if (origin?.builtIn && name !== origin.name) {
      throw messageErrors.TEMPLATE_INVALID({
        message:
          'name: this template belongs to a module; create another one instead of renaming it',
        errors: [{ path: 'name', rule: 'fixed', message: 'this template belongs to a module' }],
      });
    }
    if (await isNameTaken(transaction, name, id)) throw messageErrors.TEMPLATE_EXISTS();
    const held = from === undefined ? await externalTemplate(transaction, id) : undefined;
    if (held) await followAtProvider({ jobs }, transaction, held);
    return records.update(asModule, schema, id, {
      ...change,
      edited: true,
      variables: variablesOf({ subject, body }, further),
    });
  });
}

const variablesOf = (
  { subject, body }: Pick<TemplateInput, 'subject' | 'body'>,
  further: readonly string[] = [],
): readonly string[] => [
  ...new Set([...parseTemplate(body).variables, ...parseTemplate(subject).variables, ...further]),
];

/** What an operator named that the texts do not use. */
export function furtherVariables(
  template: Pick<TemplateInput, 'subject' | 'body' | 'variables'>,
): readonly string[] {
  const used = new Set(variablesOf(template));
  return (template.variables ?? []).filter((name) => !used.has(name));
}

/** Throws 400 for texts that are no templates, and for a sender who is none. */
export function checkTemplate({
  subject,
  body,
  sender,
  translations = {},
}: Omit<TemplateInput, 'name'>): void {
  parsePart('subject', subject);
  parsePart('body', body);
  requireLocales(translations);
  for (const [locale, texts] of Object.entries(translations)) {
    parsePart(`translations.${locale}.subject`, texts.subject);
    parsePart(`translations.${locale}.body`, texts.body);
  }
  if (sender !== undefined && sender !== '') requireSenderForm(sender, 'sender');
}

type Translated = Translation & {
  readonly sender?: string | null;
  readonly translations?: unknown;
};

function inOneLanguage({ subject, body, sender, translations }: Translated, locale?: string) {
  const there = translations as Readonly<Record<string, Translation>> | null | undefined;
  const texts = inLanguage(there, locale) ?? { subject, body };
  return { subject: texts.subject, body: texts.body, sender: sender ?? undefined };
}

/** The texts of a template as it is stored (JSON), in a language. */
export const templateTexts = (json: string, locale: string | undefined) =>
  inOneLanguage(JSON.parse(json) as Translated, locale);

/** By a part of the name, or by its id. */
export function nameContains(search: string | undefined): Condition {
  if (search === undefined) return all();
  return isId(search) ? equals('_id', search, 'search') : contains('name', search, 'search');
}

export async function unlessMissing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof PenstockError && error.status === 404
      ? messageErrors.TEMPLATE_NOT_FOUND({ cause: error })
      : error;
  }
}
