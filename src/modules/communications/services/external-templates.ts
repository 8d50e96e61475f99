/**
 * Templates that a mail provider holds too: brought there, kept there as they are here, and their texts fetched back.
 * Mails are written from the row here.
 */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import { invalid, PenstockError } from '../../../kernel/errors.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { cutText } from '../../../kernel/text.ts';
import { messageErrors } from '../errors.ts';
import {
  externalTemplate,
  externalTemplates,
  type HeldBy,
  noteExternal,
} from '../template-queries.ts';
import type { ProviderTemplate, SetProvider, TemplateTexts } from './email/provider-templates.ts';
import { parseTemplate } from './template-language.ts';
import { providerTemplateJob, type TemplateInput, type Templates } from './templates.ts';

export interface ExternalTemplates {
  list(): Promise<readonly (ProviderTemplate & { readonly variables: readonly string[] })[]>;
  /** Brings a template to the provider, or its new texts; answers its record as JSON text and what is there now. Throws TEMPLATE_NOT_FOUND. */
  upload(
    caller: Caller,
    id: string,
  ): Promise<{ readonly template: string; readonly created: ProviderTemplate }>;
  /**
   * Makes a template here and there, or here for the one that the provider holds under `externalId`; neither where one of
   * both cannot. Answers its record as JSON text. Throws TEMPLATE_EXISTS before the provider is asked.
   */
  create(caller: Caller, input: TemplateInput, externalId?: string): Promise<string>;
  /** Fetches the texts of those that were brought there; answers the records that changed, as JSON texts. */
  sync(caller: Caller): Promise<readonly string[]>;
  readonly job: JobDefinition;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly templates: Templates;
  readonly provider: () => SetProvider;
}

export function createExternalTemplates(dependencies: Dependencies): ExternalTemplates {
  const { database, templates, provider } = dependencies;
  const upload: ExternalTemplates['upload'] = async (_caller, id) => {
    const there = provider();
    const { name, subject, body, externalId } = JSON.parse(
      (await templates.get(id)).json,
    ) as TemplateTexts & { readonly externalId: string | null };
    // What was deleted there is made anew.
    const known = externalId === null ? undefined : await there.get(externalId);
    const own = await there.save({ name, subject, body }, known?.id);
    await noteExternal(database, id, { externalId: own, provider: there.provider });
    return {
      template: (await templates.get(id)).json,
      created: { id: own, name, subject, body, createdAt: known?.createdAt ?? null },
    };
  };
  return {
    async list() {
      return (await provider().list()).map((template) => ({
        ...template,
        variables: variablesIn(template),
      }));
    },
    upload,
    async create(caller, input, externalId) {
      const there = provider();
      const { _id: id } = JSON.parse((await templates.create(caller, input)).json) as {
        readonly _id: string;
      };
      try {
        if (externalId === undefined) return (await upload(caller, id)).template;
        if (!(await there.get(externalId)))
          throw invalid('_id', 'exists', 'the provider has no template under this id');
        await noteExternal(database, id, { externalId, provider: there.provider });
        return (await templates.get(id)).json;
      } catch (error) {
        await templates.remove(caller, [id]);
        throw error;
      }
    },
    async sync() {
      const there = provider();
      const updated: string[] = [];
      for (const { id, externalId, subject, body } of await externalTemplates(
        database,
        there.provider,
      )) {
        const found = await there.get(externalId);
        // Texts that are no templates here stay as they are.
        if (!found || !isTemplate(found)) continue;
        if (found.subject === subject && found.body === body) continue;
        const change = { subject: cutText(found.subject, 500) || subject, body: found.body };
        const { json } = await templates.update(system('template sync'), id, change, 'provider');
        updated.push(json);
      }
      return updated;
    },
    job: followJob(dependencies),
  };
}

/** Brings what was changed or deleted here to the provider that holds it. Another provider that is set now is told nothing. */
const followJob = ({ database, provider }: Dependencies): JobDefinition =>
  defineJob({
    name: providerTemplateJob,
    data: Type.Object({
      id: Type.String({ format: 'uuid' }),
      externalId: Type.String(),
      provider: Type.String({ description: 'Empty where it was not noted' }),
    }),
    retries: 15,
    async handler({ id, externalId, provider: held }) {
      const there = providerIfAny(provider);
      if (!there || (held !== '' && held !== there.provider)) return;
      const row = await externalTemplate(database, id);
      if (!row) return there.remove(externalId);
      const known = await there.get(row.externalId);
      if (known && !isSame(known, row)) await there.save(row, known.id);
    },
  });

/** Nothing while mail is off, and where the provider keeps no templates. */
function providerIfAny(provider: () => SetProvider): SetProvider | undefined {
  const { CHANNEL_DISABLED, PROVIDER_TEMPLATES_UNSUPPORTED } = messageErrors;
  try {
    return provider();
  } catch (error) {
    const codes: readonly string[] = [CHANNEL_DISABLED.code, PROVIDER_TEMPLATES_UNSUPPORTED.code];
    if (error instanceof PenstockError && codes.includes(error.code)) return undefined;
    throw error;
  }
}

const isSame = (one: TemplateTexts, other: Omit<TemplateTexts, 'name'> & HeldBy): boolean =>
  one.subject === other.subject && one.body === other.body;

const variablesIn = ({ subject, body }: TemplateTexts): readonly string[] => {
  try {
    return [...new Set([body, subject].flatMap((text) => parseTemplate(text).variables))];
  } catch {
    return [];
  }
};

function isTemplate({ subject, body }: TemplateTexts): boolean {
  try {
    parseTemplate(subject);
    parseTemplate(body);
    return body !== '' && body.length <= 200_000;
  } catch {
    return false;
  }
}
