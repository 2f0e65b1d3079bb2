# A screen with SGR sequences (tmux capture-pane -e) to SVG, in the palette given as 18 colours: background, text, 0 to 15.
# Bytes, not characters: run with LC_ALL=C.
BEGIN {
    split(palette, colour, " ")
    width = 12; height = 24; margin = 12
    bold = dim = italic = underline = reverse = 0; foreground = 2; background = 1
}

{
    row = $0; column = 0; y = margin + (NR - 1) * height
    while (row != "") {
        if (match(row, /^\033\[[0-9;]*m/)) {
            attributes(substr(row, 3, RLENGTH - 3))
            row = substr(row, RLENGTH + 1)
            continue
        }
        at = index(row, "\033")
        # Charset and other sequences have no part in a picture.
        if (at == 1) { row = substr(row, 2); continue }
        run = at ? substr(row, 1, at - 1) : row
        row = at ? substr(row, at) : ""
        draw(run)
    }
    if (column > columns) columns = column
}

END {
    w = columns * width + 2 * margin; h = NR * height + 2 * margin
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" xml:space=\"preserve\"", w, h
    printf " font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"20\">\n"
    printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"%s\"/>\n%s</svg>\n", w, h, colour[1], body
}

function attributes(list,    n, code, i) {
    n = split(list, code, ";")
    if (n == 0) code[n = 1] = 0
    for (i = 1; i <= n; i++) {
        if (code[i] == 0) { bold = dim = italic = underline = reverse = 0; foreground = 2; background = 1 }
        else if (code[i] == 1) bold = 1
        else if (code[i] == 2) dim = 1
        else if (code[i] == 3) italic = 1
        else if (code[i] == 4) underline = 1
        else if (code[i] == 7) reverse = 1
        else if (code[i] == 22) bold = dim = 0
        else if (code[i] == 23) italic = 0
        else if (code[i] == 24) underline = 0
        else if (code[i] == 27) reverse = 0
        # The chat uses the terminal's own colours alone.
        else if (code[i] == 38 && code[i + 1] == 5) { foreground = code[i + 2] + 3; i += 2 }
        else if (code[i] == 48 && code[i + 1] == 5) { background = code[i + 2] + 3; i += 2 }
        else if (code[i] >= 30 && code[i] <= 37) foreground = code[i] - 30 + 3
        else if (code[i] == 39) foreground = 2
        else if (code[i] >= 40 && code[i] <= 47) background = code[i] - 40 + 3
        else if (code[i] == 49) background = 1
        else if (code[i] >= 90 && code[i] <= 97) foreground = code[i] - 90 + 11
        else if (code[i] >= 100 && code[i] <= 107) background = code[i] - 100 + 11
    }
}

# A run of one style; characters are what is left without continuation bytes.
function draw(text,    cells, x, length_, fore, back, style, blank) {
    cells = text
    gsub(/[\200-\277]/, "", cells)
    cells = length(cells)
    x = margin + column * width
    length_ = cells * width
    column += cells
    fore = reverse ? background : foreground
    back = reverse ? foreground : background
    if (back != 1)
        body = body sprintf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x, y, length_, height, colour[back])
    blank = text
    gsub(/ /, "", blank)
    if (blank == "") return
    style = sprintf(" fill=\"%s\"", colour[fore])
    if (bold) style = style " font-weight=\"bold\""
    if (dim) style = style " opacity=\"0.65\""
    if (italic) style = style " font-style=\"italic\""
    if (underline) style = style " text-decoration=\"underline\""
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    body = body sprintf("<text x=\"%d\" y=\"%d\" textLength=\"%d\"%s>%s</text>\n", x, y + 18, length_, style, text)
}
