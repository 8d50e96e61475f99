/** The data that communications owns, in the schema language. */
import type { SchemaDefinition } from '../../data/schema/language/definition.ts';

/** A mail template. Those that modules bring are rows too, so that operators can change them. */
export const emailTemplateSchema = {
  name: 'EmailTemplate',
  fields: {
    name: { type: 'String', required: true, validate: { maxLength: 100 } },
    subject: { type: 'String', required: true, validate: { maxLength: 500 } },
    body: {
      type: 'String',
      required: true,
      validate: { maxLength: 200_000 },
      description: 'HTML with {{variables}}.',
    },
    sender: {
      type: 'String',
      validate: { maxLength: 254 },
      description: 'With or without a domain.',
    },
    variables: ['String'],
    translations: {
      type: 'JSON',
      description: 'Subject and body by language: {"de": {"subject": ..., "body": ...}}.',
    },
    externalManaged: { type: 'Boolean', required: true, default: false },
    externalId: 'String',
    externalProvider: 'String',
    jsonTemplate: 'String',
    builtIn: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether a module brought it. Deleting it brings its first text back.',
    },
    edited: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether an operator changed what the module brought.',
    },
  },
  modelOptions: {
    timestamps: true,
    indexes: [{ fields: ['name'], options: { unique: true } }],
    conduit: {
      cms: { enabled: false },
      permissions: {
        extendable: true,
        canCreate: false,
        canModify: 'ExtensionOnly',
        canDelete: false,
      },
    },
  },
} as const satisfies SchemaDefinition;

/** One text for several channels, of which each message takes what its own needs. */
export const communicationTemplateSchema = {
  name: 'CommunicationTemplate',
  fields: {
    name: { type: 'String', required: true, validate: { maxLength: 100 } },
    templateDescription: { type: 'String', validate: { maxLength: 1000 } },
    channels: { type: ['String'], required: true },
    email: { type: 'JSON', description: '{subject, body, sender}' },
    push: { type: 'JSON', description: '{title, body}' },
    sms: { type: 'JSON', description: '{message}' },
    translations: { type: 'JSON', description: 'The same blocks by language.' },
    variables: ['String'],
    category: {
      type: 'String',
      validate: { maxLength: 50 },
      description: 'Kind of message by which users choose what they get.',
    },
    critical: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Goes out whatever its recipient chose, and in quiet hours too.',
    },
  },
  modelOptions: {
    timestamps: true,
    indexes: [{ fields: ['name'], options: { unique: true } }],
    conduit: {
      cms: { enabled: false },
      permissions: {
        extendable: true,
        canCreate: false,
        canModify: 'ExtensionOnly',
        canDelete: false,
      },
    },
  },
} as const satisfies SchemaDefinition;
