/** Templates out of requests: what cannot be read is 400 and names the field. */
import { messageErrors } from '../errors.ts';
import { parseTemplate, type Template, TemplateError } from './template-language.ts';

/** Throws INVALID_TEMPLATE. */
export function parsePart(path: 'subject' | 'body', text: string): Template {
  try {
    return parseTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { message } = error;
    throw messageErrors.INVALID_TEMPLATE({ message: `${path}: ${message}`, errors: [{ path, rule: 'template', message }] });
  }
}
