/** An MCP server for one request: nothing is kept between requests, so any node answers any of them. */
import {
  type CallToolResult,
  type ListToolsResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  Server,
} from '@modelcontextprotocol/server';
import { invalid } from '../../kernel/errors.ts';
import { version } from '../../kernel/version.ts';
import type { Json } from '../openapi/schemas.ts';
import { type Arguments, outcome, requireDeclared, type ToolCaller } from './call-tool.ts';
import { describeTool } from './listed-tool.ts';
import type { Prompts } from './prompts.ts';
import type { Resources } from './resources.ts';
import { outcomeSchema, type Tool } from './tool.ts';
import type { Toolbox } from './toolbox.ts';

/* Tools about tools: always loaded. */

interface MetaTool {
  readonly name: string;
  readonly description: Json;
  call(args: Arguments): Promise<CallToolResult> | CallToolResult;
}

const reading = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};

/** How many tools a search answers. */
const MAX_FOUND = 20;

function metaTools(
  toolbox: Toolbox,
  call: (tool: Tool, args: Arguments) => Promise<CallToolResult>,
): readonly MetaTool[] {
  return [
    listModules(toolbox),
    describeOne(toolbox),
    ...(toolbox.dynamic ? [searchTools(toolbox), callTool(toolbox, call)] : []),
  ];
}

const listModules = (toolbox: Toolbox): MetaTool => ({
  name: 'list_modules',
  description: {
    name: 'list_modules',
    title: 'List modules',
    description:
      'Lists the modules that have tools, and which of them are loaded. To load more, connect to this address with ?modules=a,b',
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    outputSchema: outcomeSchema({
      type: 'object',
      properties: {
        modules: { type: 'array', items: { type: 'object' } },
        totalModules: { type: 'integer' },
        loadedModules: { type: 'array', items: { type: 'string' } },
        unknown: { type: 'array', items: { type: 'string' } },
      },
    }),
    annotations: { title: 'List modules', ...reading },
  },
  call() {
    const modules = toolbox.groups();
    const loaded = modules.filter((module) => module.loaded);
    return outcome({
      success: true,
      message: `${loaded.length} of ${modules.length} modules are loaded`,
      data: {
        modules,
        totalModules: modules.length,
        loadedModules: loaded.map(({ name }) => name),
        unknown: toolbox.unknown,
      },
    });
  },
});

const toolName = { type: 'string', maxLength: 64, description: 'Name of the tool' };

/** Lists leave out what is long. */
const describeOne = (toolbox: Toolbox): MetaTool => ({
  name: describeTool,
  description: {
    name: describeTool,
    title: 'Describe a tool',
    description:
      'Answers everything about a tool, loaded or not: the whole inputSchema and outputSchema, of which tools/list shows the shorter parts.',
    inputSchema: {
      type: 'object',
      properties: { name: toolName },
      required: ['name'],
      additionalProperties: false,
    },
    outputSchema: outcomeSchema({
      type: 'object',
      properties: {
        name: { type: 'string' },
        module: { type: 'string' },
        title: { type: 'string' },
        description: { type: 'string' },
        inputSchema: { type: 'object' },
        outputSchema: { type: 'object' },
        annotations: { type: 'object' },
      },
    }),
    annotations: { title: 'Describe a tool', ...reading },
  },
  call({ name }) {
    const tool = knownTool(toolbox, name);
    return outcome({
      success: true,
      message: `The tool ${tool.name}`,
      data: { ...tool.description, module: tool.group },
    });
  },
});

function knownTool({ all }: Toolbox, name: unknown): Tool {
  const found = all.find((one) => one.name === text('name', name));
  if (!found)
    throw invalid('name', 'known', `there is no tool ${String(name)}: look with list_modules`);
  return found;
}

const searchTools = (toolbox: Toolbox): MetaTool => ({
  name: 'search_tools',
  description: {
    name: 'search_tools',
    title: 'Search tools',
    description:
      'Finds tools by words in their name and description, also of modules that are not loaded. Run one with call_tool.',
    inputSchema: {
      type: 'object',
      properties: {
        query: {
          type: 'string',
          minLength: 1,
          maxLength: 200,
          description: 'Words, with spaces between them',
        },
        module: { type: 'string', maxLength: 64, description: 'Only tools of this module' },
      },
      required: ['query'],
      additionalProperties: false,
    },
    outputSchema: outcomeSchema({
      type: 'object',
      properties: { tools: { type: 'array', items: { type: 'object' } } },
    }),
    annotations: { title: 'Search tools', ...reading },
  },
  call({ query, module }) {
    const words = text('query', query).toLowerCase().split(/\s+/);
    const group = module === undefined ? undefined : text('module', module);
    const found = toolbox.all
      .filter((tool) => group === undefined || tool.group === group)
      .map((tool) => ({ tool, hits: hits(tool, words) }))
      .filter(({ hits: count }) => count > 0)
      .sort((a, b) => b.hits - a.hits)
      .slice(0, MAX_FOUND);
    const tools = found.map(({ tool: { name, group: of, description } }) => ({
      name,
      module: of,
      description: description.description,
      inputSchema: description.inputSchema,
    }));
    return outcome({ success: true, message: `${tools.length} tools found`, data: { tools } });
  },
});

const callTool = (
  toolbox: Toolbox,
  call: (tool: Tool, args: Arguments) => Promise<CallToolResult>,
): MetaTool => ({
  name: 'call_tool',
  description: {
    name: 'call_tool',
    title: 'Call a tool',
    description:
      'Calls a tool that search_tools has found, with the arguments that its inputSchema describes.',
    inputSchema: {
      type: 'object',
      properties: {
        name: toolName,
        arguments: { type: 'object', description: 'As its inputSchema describes them' },
      },
      required: ['name'],
      additionalProperties: false,
    },
    outputSchema: outcomeSchema({ description: 'What that tool answers' }),
    annotations: {
      title: 'Call a tool',
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    },
  },
  call({ name, arguments: args = {} }) {
    const tool = knownTool(toolbox, name);
    if (typeof args !== 'object' || args === null || Array.isArray(args))
      throw invalid('arguments', 'type', 'must be an object');
    return call(tool, args as Arguments);
  },
});

function text(name: string, value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '')
    throw invalid(name, 'type', 'must be a text');
  return value.trim();
}

const hits = ({ name, description }: Tool, words: readonly string[]): number => {
  const where = `${name} ${String(description.description)}`.toLowerCase();
  return words.filter((word) => where.includes(word)).length;
};

/** What a request brought. */
export interface McpRequest {
  readonly toolbox: Toolbox;
  readonly tools: ToolCaller;
  readonly resources: Resources;
  prompts(): Prompts;
}

export const serverInfo = { name: 'penstock-admin', title: 'Penstock', version };

const instructions =
  'The admin surface of a Penstock installation. Only the core module is loaded unless the address asks for more with ?modules=a,b ' +
  '(list_modules names them). Read the resource service://docs/api-guide first. Prompts (prompts/list) tell how the common jobs are done.';

export function createServer({ toolbox, tools, resources, prompts }: McpRequest): Server {
  const server = new Server(serverInfo, {
    capabilities: {
      tools: { listChanged: false },
      resources: { listChanged: false },
      prompts: { listChanged: false },
    },
    instructions,
  });
  const meta = metaTools(toolbox, (tool, args) => tools.call(tool, args));

  server.setRequestHandler('tools/list', () => {
    const listed = [
      ...meta.map(({ description }) => description),
      ...toolbox.loaded.map(({ listed }) => listed),
    ];
    return { tools: listed } as unknown as ListToolsResult;
  });
  server.setRequestHandler('tools/call', ({ params: { name, arguments: args = {} } }) => {
    const own = meta.find((tool) => tool.name === name);
    if (own)
      return tools.answer(name, () => {
        requireDeclared(own, args);
        return own.call(args);
      });
    const tool = toolbox.find(name);
    if (!tool)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `There is no tool ${name}. ${howToLoad(toolbox, name)}`,
      );
    return tools.call(tool, args);
  });
  server.setRequestHandler('prompts/list', () => prompts().list());
  server.setRequestHandler('prompts/get', ({ params: { name, arguments: given = {} } }) =>
    prompts().get(name, given),
  );
  server.setRequestHandler('resources/list', () => resources.list());
  server.setRequestHandler('resources/templates/list', () => resources.templates());
  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const found = await resources.read(uri);
    if (found) return found;
    throw new ResourceNotFoundError(uri);
  });
  return server;
}

function howToLoad({ all }: Toolbox, name: string): string {
  const group = all.find((tool) => tool.name === name)?.group;
  return group === undefined
    ? 'list_modules says what can be loaded'
    : `Load it: connect with ?modules=${group}`;
}
