/** Templates that a mail provider holds too: brought there, and their texts fetched back. Mails are written from the row here. */

import type { Kernel } from '../../../host/kernel.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import { cutText } from '../../../kernel/text.ts';
import { externalTemplates, noteExternal } from '../template-queries.ts';
import type {
  ProviderTemplate,
  ProviderTemplates,
  TemplateTexts,
} from './email/provider-templates.ts';
import { parseTemplate } from './template-language.ts';
import type { Templates } from './templates.ts';

export interface ExternalTemplates {
  list(): Promise<readonly (ProviderTemplate & { readonly variables: readonly string[] })[]>;
  /** Brings a template to the provider, or its new texts; answers its record as JSON text and what is there now. Throws TEMPLATE_NOT_FOUND. */
  upload(
    caller: Caller,
    id: string,
  ): Promise<{ readonly template: string; readonly created: ProviderTemplate }>;
  /** Fetches the texts of those that were brought there; answers the records that changed, as JSON texts. */
  sync(caller: Caller): Promise<readonly string[]>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly templates: Templates;
  readonly provider: () => ProviderTemplates;
}

export const createExternalTemplates = ({
  database,
  templates,
  provider,
}: Dependencies): ExternalTemplates => ({
  async list() {
    return (await provider().list()).map((template) => ({
      ...template,
      variables: variablesIn(template),
    }));
  },
  async upload(_caller, id) {
    const there = provider();
    const { name, subject, body, externalId } = JSON.parse(
      (await templates.get(id)).json,
    ) as TemplateTexts & { readonly externalId: string | null };
    // What was deleted there is made anew.
    const known = externalId === null ? undefined : await there.get(externalId);
    const own = await there.save({ name, subject, body }, known?.id);
    await noteExternal(database, id, own);
    return {
      template: (await templates.get(id)).json,
      created: { id: own, name, subject, body, createdAt: known?.createdAt ?? null },
    };
  },
  async sync() {
    const there = provider();
    const updated: string[] = [];
    for (const { id, externalId, subject, body } of await externalTemplates(database)) {
      const found = await there.get(externalId);
      // Texts that are no templates here stay as they are.
      if (!found || !isTemplate(found)) continue;
      if (found.subject === subject && found.body === body) continue;
      const change = { subject: cutText(found.subject, 500) || subject, body: found.body };
      updated.push((await templates.update(system('template sync'), id, change)).json);
    }
    return updated;
  },
});

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
