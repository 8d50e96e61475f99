/** The mails of forms. Every value in them is escaped by the template language. */
import type { BuiltInTemplate } from '../communications/index.ts';

const styles = 'font-family:sans-serif;line-height:1.5';
const cell = 'padding:4px 12px 4px 0;text-align:left;vertical-align:top';

/** To the addresses of `forwardTo`. Has `data` (lines) for templates of the 0.16 line too. */
export const forwardTemplate: BuiltInTemplate = {
  name: 'FormSubmission',
  subject: 'New submission: {{form}}',
  body: `<div style="${styles}">
<p>Somebody has filled in the form <strong>{{form}}</strong>.</p>
<table style="border-collapse:collapse">
{{#each fields}}<tr><th style="${cell}">{{label}}</th><td style="${cell};white-space:pre-wrap">{{value}}</td></tr>
{{/each}}</table>
{{#if files}}<p>Files; the links work for {{linkDays}} days:</p>
<ul>{{#each files}}<li><a href="{{url}}">{{name}}</a> ({{size}} bytes)</li>
{{/each}}</ul>{{/if}}
<p>Submission {{submissionId}}</p>
</div>`,
};

/** To the submitter, where a form sets \`autoReply: true\`. */
export const replyTemplate: BuiltInTemplate = {
  name: 'FormAutoReply',
  subject: 'We have got your message',
  body: `<div style="${styles}"><p>Thank you. What you sent with "{{form}}" has reached us.</p></div>`,
};

/** To the submitter of a form with double opt-in. */
export const confirmTemplate: BuiltInTemplate = {
  name: 'FormConfirmation',
  subject: 'Please confirm: {{form}}',
  body: `<div style="${styles}">
<p>This address was given in the form "{{form}}".</p>
<p><a href="{{link}}">Yes, that was me</a></p>
<p>If it was not you, do nothing: what was sent is deleted in {{hours}} hours.</p>
</div>`,
};

export const formTemplates = [forwardTemplate, replyTemplate, confirmTemplate];
